package api_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"failback/gateway/operator/api"
)

const instant = `"at":"2026-01-02T03:04:05Z"`

// questions are all that is answered with JSON.
func questions(c *api.Client) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"state":     func(ctx context.Context) error { _, err := c.State(ctx); return err },
		"decisions": func(ctx context.Context) error { _, err := c.Decisions(ctx, api.Filter{}); return err },
		"events":    func(ctx context.Context) error { _, err := c.Events(ctx, 0); return err },
		"audit":     func(ctx context.Context) error { _, err := c.Audit(ctx, 0); return err },
		"incidents": func(ctx context.Context) error { _, err := c.Incidents(ctx); return err },
		"incident":  func(ctx context.Context) error { _, err := c.Incident(ctx, "x"); return err },
		"reload":    func(ctx context.Context) error { _, err := c.Reload(ctx, api.Command{}); return err },
	}
}

// What no gateway answers is refused by every question alike, in a few words.
func TestNoGatewaysAnswerIsTaken(t *testing.T) {
	for body, says := range map[string]string{
		``:                                     "the answer is not understood: unexpected end of JSON input",
		`{` + instant:                          "the answer is not understood: unexpected end of JSON input",
		`[]`:                                   "not understood",
		`{}`:                                   "its answer has no ",
		`null`:                                 "its answer has no ",
		`{"at":null,"id":null,"message":null}`: "its answer has no ",
		`{"at":5}`:                             "not understood",
		`{"at":"` + strings.Repeat("9", 1<<20) + `"}`: "not understood",
		`{"environment":"x"}`:                         "its answer has no ",
		`{` + instant + `,"id":"x","message":"m"} {}`: "more follows",
		`{` + instant + `,"id":"x","message":"m"}]`:   "not understood",
	} {
		addr := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, body)
		})
		for name, ask := range questions(client(t, "http://"+addr, api.Options{})) {
			says := says
			if name == "reload" && (strings.HasPrefix(body, `{"at":5`) || strings.HasPrefix(body, `{"at":"9`)) { // a result tells no time
				says = "its answer has no message"
			}
			err := ask(t.Context())
			u, ok := errors.AsType[*api.UnreachableError](err)
			if !ok || !strings.Contains(err.Error(), says) || len(err.Error()) > 600 || u.MayHaveHappened != (name == "reload") {
				t.Errorf("%s answered with %.40s: %.700v", name, body, err)
			}
		}
	}
}

// What a gateway answers is taken, whatever else there is in it.
func TestAGatewaysAnswerIsTaken(t *testing.T) {
	for _, body := range []string{
		`{` + instant + `,"id":"x","message":"m"}`,
		`{` + instant + `,"id":"x","message":"m","new":[[],{"a":"]\"}[,"},",,,\\"]}` + "\n \n",
	} {
		addr := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, body)
		})
		for name, ask := range questions(client(t, "http://"+addr, api.Options{})) {
			if err := ask(t.Context()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// An answer without an end, a long one and a short one that would take much room
// are refused before they take it.
func TestALargeAnswerTakesLittleRoom(t *testing.T) {
	again := func(s string) func(w io.Writer) {
		s = strings.Repeat(s, 64<<10/len(s))
		return func(w io.Writer) {
			for range 2000 {
				if _, err := io.WriteString(w, s); err != nil {
					return
				}
			}
		}
	}
	for name, tt := range map[string]struct {
		begin, end string
		more       func(io.Writer)
		says       string
	}{
		"one text":   {`{` + instant + `,"id":"`, `"}`, again("A"), "the answer is over "},
		"white":      {`{` + instant + `,"id":"x","message":"m"}`, ``, again(" "), "the answer is over "},
		"fields":     {`{` + instant, `}`, again(`,"new":1`), "the answer is over "},
		"upstreams":  {`{` + instant + `,"upstreams":[{}`, `]}`, again(`,{}`), "lists of over "},
		"nulls":      {`{` + instant + `,"decisions":[0`, `]}`, again(`,null`), "lists of over "},
		"deep":       {`{` + instant + `,"x":`, ``, again(`[`), ""},
		"a number":   {`{"at":`, `}`, again(`9`), "the answer is over "},
		"one object": {``, ``, again(`{"a":`), ""},
	} {
		t.Run(name, func(t *testing.T) {
			addr := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				io.WriteString(w, tt.begin)
				tt.more(w)
				io.WriteString(w, tt.end)
			})
			for name, ask := range questions(client(t, "http://"+addr, api.Options{})) {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				err := ask(t.Context())
				runtime.ReadMemStats(&after)
				if _, ok := errors.AsType[*api.UnreachableError](err); !ok || !strings.Contains(err.Error(), tt.says) || len(err.Error()) > 600 {
					t.Errorf("%s: %.700v", name, err)
				}
				// All that was ever allocated, the server's part included.
				if took := after.TotalAlloc - before.TotalAlloc; took > 64<<20 {
					t.Errorf("%s took %d MiB", name, took>>20)
				}
			}
		})
	}
}

// Closest to a gateway's largest answers: they are within the bounds.
func TestTheLargestAnswersAreTaken(t *testing.T) {
	upstream := `{"name":"` + strings.Repeat("u", 100) + `","probes":[` + strings.Repeat(`{},`, 49) + `{}],"reason":"` + strings.Repeat("r", 8<<10) + `"}`
	decision := `{"request_id":"` + strings.Repeat("r", 8<<10) + `","candidates":[` + strings.Repeat(`{},`, 31) + `{}],"attempts":[` + strings.Repeat(`{},`, 31) + `{}]}`
	for path, body := range map[string]string{
		"state":     `{` + instant + `,"upstreams":[` + strings.Repeat(upstream+",", 199) + upstream + `]}`,
		"decisions": `{` + instant + `,"decisions":[` + strings.Repeat(decision+",", 499) + decision + `]}`,
	} {
		addr := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, body)
		})
		if err := questions(client(t, "http://"+addr, api.Options{}))[path](t.Context()); err != nil {
			t.Errorf("%s of %d bytes: %v", path, len(body), err)
		}
	}
}
