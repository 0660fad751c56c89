package logs

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"failback/internal/bubble"
)

// long makes a store of n lines of about a kilobyte, a second apart from 1970.
func long(t *testing.T, n int) *Store {
	s := open(t, Options{Dir: t.TempDir()})
	lines := make([]string, n)
	for i := range lines {
		lines[i] = at(int64(i)*1e9, fmt.Sprintf(`"id":"%d","pad":%q`, i, strings.Repeat("x", 1000)))
	}
	store(t, s, lines...)
	return s
}

// A question is refused for what it would take from the requests, as Loki
// refuses what is too much, and says what the bound is.
func TestAQuestionHasBounds(t *testing.T) {
	s := long(t, 3000)
	chain := `{service_name="failback"} | json` + strings.Repeat(` | line_format "{{__line__}}{{.pad}}{{.id}}"`, 20)
	for name, c := range map[string]struct {
		query, want string
		work        time.Duration
	}{
		"lines that grow":          {chain + ` |= "nothing"`, "the templates of the query make more than 268435456 bytes", maxWork},
		"lines that grow, counted": {`sum(bytes_over_time(` + chain + ` [1h]))`, "the templates of the query make more than 268435456 bytes", maxWork},
		"lines":                    {`{service_name="failback"} |~ "(x?){40}y"`, "the query works longer than 20ms", 20 * time.Millisecond},
		"numbers":                  {`max(count_over_time({service_name="failback"} | json | keep id [1h]))`, "the query works longer than 100ms", 100 * time.Millisecond},
		"an answer":                {`{service_name="failback"} | json | line_format "{{repeat 12 .pad}}"`, "the answer is larger than 33554432 bytes", maxWork},
	} {
		t.Run(name, func(t *testing.T) {
			s.maxWork = c.work
			status, kind, text := ask(t, s.Handler(), http.MethodGet, "/loki/api/v1/query_range",
				url.Values{"query": {c.query}, "start": {"0"}, "end": {"3600"}, "step": {"1"}, "limit": {"5000"}})
			if status != 400 || !strings.HasPrefix(kind, "text/plain") || !strings.Contains(text, c.want) || !strings.Contains(text, "the most that is allowed") {
				t.Errorf("%d %s %.300s", status, kind, text)
			}
		})
	}
}

// What is made of the lines, numbers and JSON, is made in the question's turn.
func TestAnAnswerIsMadeInTurn(t *testing.T) {
	s := long(t, 10)
	for range cap(s.pace.places) { // others work
		s.pace.places <- struct{}{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newAPI(s).encode(ctx, indexStats{}); err != context.Canceled {
		t.Errorf("%v", err)
	}
	if err := s.Turn().Begin(ctx); err != context.Canceled {
		t.Errorf("%v", err)
	}
	for range cap(s.pace.places) {
		<-s.pace.places
	}
	if _, err := newAPI(s).encode(t.Context(), indexStats{}); err != nil || len(s.pace.places) != 0 {
		t.Errorf("%v, %d places are held", err, len(s.pace.places))
	}
}

// Of lines that take long each one is followed by a look at the clock.
func TestSlowLinesRestEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := turn{p: &pacer{make(chan struct{}, 1)}}
		if err := own.begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		line := func(d time.Duration) {
			bubble.Sleep(d) // of the test's own clock
			if err := own.line(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		for i := range 3 {
			line(stretch)
			if took := time.Since(began); took != time.Duration(2*(i+1))*stretch {
				t.Errorf("%d slow lines took %v", i+1, took)
			}
		}
		line(0) // which was fast
		began = time.Now()
		for range checked - 1 {
			line(stretch / 2)
		}
		if took := time.Since(began); took != (checked-1)*stretch/2 {
			t.Errorf("the lines behind a fast one took %v", took)
		}
		own.end(t.Context())
	})
}
