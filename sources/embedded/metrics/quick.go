package metrics

import (
	"net/http"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
)

// Who asks little has places of its own: the console's first frame does not wait
// for the end of queries that take as long as they may.
const (
	quickSteps  = 500
	quickWindow = 15 * time.Minute
	quickParts  = 200 // tokens
)

// quick reports whether r asks little, by its form alone: few steps, a short
// expression, short ranges, no subquery. What is wrong with it is for others to
// say.
func quick(r *http.Request) bool {
	if v := r.Form.Get("step"); v != "" {
		start, err1 := parseTime(r.Form.Get("start"))
		end, err2 := parseTime(r.Form.Get("end"))
		step, err3 := parseDuration(v)
		if err1 != nil || err2 != nil || err3 != nil || step <= 0 || end.Sub(start)/step > quickSteps {
			return false
		}
	}
	var item parser.Item
	inBrackets := false
	l := parser.Lex(r.Form.Get("query"))
	for range quickParts {
		l.NextItem(&item)
		switch item.Typ {
		case parser.EOF, parser.ERROR:
			return true
		case parser.LEFT_BRACKET:
			inBrackets = true
		case parser.RIGHT_BRACKET:
			inBrackets = false
		case parser.COLON:
			return false
		case parser.DURATION, parser.NUMBER:
			if !inBrackets {
				break
			}
			if d, err := model.ParseDuration(item.Val); err != nil || time.Duration(d) > quickWindow {
				return false
			}
		}
	}
	return false
}
