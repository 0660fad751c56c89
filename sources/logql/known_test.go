package logql

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// known is one query of testdata/known.txt.
type known struct {
	at    int // line of the file
	src   *Lines
	query string
	start time.Duration // of a range
	end   time.Duration
	step  time.Duration // 0: an instant query, or lines
	want  []string
}

// readKnown reads questions with their answers: `in` begins a set of lines, each
// with its labels and time; `q` asks for lines, `at TIME` and `over START END STEP`
// for numbers; what follows is the answer, or `!` and the error.
func readKnown(t *testing.T) []known {
	t.Helper()
	f, err := os.Open("testdata/known.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	duration := func(s string) time.Duration {
		d, err := time.ParseDuration(s)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	var out []known
	var entries []Entry
	sets := map[string]Labels{}
	in := false
	sc := bufio.NewScanner(f)
	for n := 1; sc.Scan(); n++ {
		line := sc.Text()
		word, rest, _ := strings.Cut(line, " ")
		switch word {
		case "", "#":
			continue
		case "in":
			in, entries = true, nil
			continue
		case "q":
			out = append(out, known{at: n, query: rest, end: time.Hour})
		case "at":
			when, query, _ := strings.Cut(rest, " ")
			out = append(out, known{at: n, query: query, end: duration(when)})
		case "over":
			f := strings.SplitN(rest, " ", 4)
			out = append(out, known{at: n, query: f[3], start: duration(f[0]), end: duration(f[1]), step: duration(f[2])})
		default:
			if !in {
				k := &out[len(out)-1]
				k.want = append(k.want, line)
				continue
			}
			end := strings.Index(line, "} ") + 1
			labels, ok := sets[line[:end]]
			if !ok {
				q, err := Parse(line[:end])
				if err != nil {
					t.Fatalf("line %d: %v", n, err)
				}
				for _, m := range q.e.(*logExpr).matchers {
					labels = append(labels, Label{m.Name, m.Value})
				}
				sortLabels(labels)
				sets[line[:end]] = labels
			}
			when, text, _ := strings.Cut(line[end+1:], " ")
			entries = append(entries, Entry{TS: int64(duration(when)), Labels: labels, Line: []byte(text)})
			continue
		}
		if in {
			in = false
		}
		out[len(out)-1].src = NewLines(append([]Entry(nil), entries...))
	}
	if err := sc.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

func (k *known) ask(t *testing.T, src Source) []string {
	q, err := Parse(k.query)
	var res *Result
	if err == nil {
		r := Request{Query: q, Start: int64(k.start), End: int64(k.end), Step: k.step, Forward: true, Limit: 1000}
		r.Instant = q.IsMetric() && k.step == 0
		res, err = Eval(t.Context(), src, r)
	}
	if err != nil {
		return []string{"! " + strings.TrimSpace(err.Error())}
	}
	out := []string{}
	for _, s := range res.Streams {
		for _, l := range s.Lines {
			out = append(out, fmt.Sprintf("%s %v %s", s.Labels, time.Duration(l.TS), l.Text))
		}
	}
	for _, s := range res.Series {
		row := s.Labels.String()
		for _, p := range s.Points {
			if k.step > 0 {
				row += " " + time.Duration(p.TS).String()
			}
			row += " " + formatValue(p.V)
		}
		out = append(out, row)
	}
	return out
}

// TestKnownAnswers: queries of all kinds over lines of all kinds, each decided
// by what Loki documents or is known to answer. A want that ends with … is how
// the answer begins.
func TestKnownAnswers(t *testing.T) {
	all := readKnown(t)
	for _, k := range all {
		for _, src := range []Source{plain{k.src}, chopped{k.src, []int{1, 3, 4}}} {
			got := k.ask(t, src)
			same := len(got) == len(k.want)
			for i := 0; same && i < len(got); i++ {
				same = got[i] == k.want[i]
				if begin, ok := strings.CutSuffix(k.want[i], "…"); ok {
					same = strings.HasPrefix(got[i], begin)
				}
			}
			if !same {
				t.Errorf("known.txt:%d: %s\n got %s\nwant %s", k.at, k.query, strings.Join(got, "\n     "), strings.Join(k.want, "\n     "))
				break
			}
		}
	}
	if len(all) < 150 {
		t.Errorf("%d queries", len(all))
	}
}
