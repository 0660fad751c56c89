package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/spf13/pflag"

	"failback/gateway/operator/api"
)

// evil is text that drives a terminal.
const evil = "\x1b]52;c;cm0gLXJm\x07\x1b[2J\u202egnp\r\u009b2J"

// fill sets every text in v to evil, and makes one of whatever there may be
// several of.
func fill(v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(evil)
	case reflect.Pointer:
		if depth < 8 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem(), depth+1)
		}
	case reflect.Slice:
		if depth < 8 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			fill(v.Index(0), depth+1)
		}
	case reflect.Map:
		if depth < 8 && v.Type().Key().Kind() == reflect.String {
			e := reflect.New(v.Type().Elem()).Elem()
			fill(e, depth+1)
			v.Set(reflect.MakeMap(v.Type()))
			v.SetMapIndex(reflect.ValueOf(evil).Convert(v.Type().Key()), e)
		}
	case reflect.Struct:
		if _, ok := v.Interface().(time.Time); ok {
			v.Set(reflect.ValueOf(time.Now()))
			return
		}
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(v.Field(i), depth+1)
			}
		}
	}
}

func filled[T any]() *T {
	v := new(T)
	fill(reflect.ValueOf(v).Elem(), 0)
	return v
}

// Whatever a gateway answers, no command lets it reach the terminal raw.
func TestNoCommandPrintsAHostileGatewayRaw(t *testing.T) {
	calls := []string{
		"console", "status", "decisions", "query refused", "query --logql {a=\"b\"}", "step a 5", "step a plan", "step a --undo", "state a degraded", "state a recovering",
		"breaker a:text open", "passthrough off", "reload", "rules --threshold 0.1", "incident list", "incident show x", "incident report x",
		"incident open t", "incident note x t", "incident tick x r 1", "incident answer x users t", "incident close x", "incident reopen x",
	}
	for i := range commands {
		c := &commands[i]
		in := &invocation{flags: pflag.NewFlagSet("", pflag.ContinueOnError)}
		c.flags(in)
		speaks := in.flags.Lookup("connect") != nil && c.name != ""
		if speaks && !slices.ContainsFunc(calls, func(s string) bool { return strings.Fields(s)[0] == c.name }) {
			t.Errorf("%s speaks to a gateway and is not tried", c.name)
		}
	}
	for _, tt := range []struct {
		name   string
		status int
		kind   string
		answer func(path string) any
	}{
		{"refuses", http.StatusConflict, "application/json", func(string) any {
			e := filled[api.Error]()
			e.Code = api.CodeBlocked
			return e
		}},
		{"answers", http.StatusOK, "application/json", func(path string) any {
			switch {
			case strings.HasSuffix(path, "/state"):
				s := filled[api.State]()
				s.Sources = api.Sources{}
				return s
			case strings.HasSuffix(path, "/decisions"):
				return filled[api.Decisions]()
			case strings.HasSuffix(path, "/events"):
				return filled[api.Events]()
			case strings.HasSuffix(path, "/incidents"):
				return filled[api.Incidents]()
			case strings.Contains(path, "/incidents/"):
				return filled[api.Incident]()
			}
			return map[string]string{"status": "error", "errorType": evil, "error": evil}
		}},
		{"acknowledges", http.StatusOK, "application/json", func(path string) any {
			if strings.HasSuffix(path, "/state") {
				return filled[api.State]()
			}
			return filled[api.Result]()
		}},
		{"is no gateway", http.StatusOK, "text/" + "\u202egnp", func(string) any { return evil }},
		{"is not understood", http.StatusOK, "application/json", func(string) any { return evil }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", tt.kind)
				w.WriteHeader(tt.status)
				_ = json.NewEncoder(w).Encode(tt.answer(r.URL.Path))
			}))
			defer srv.Close()
			printed := false
			for _, call := range calls {
				for _, more := range [][]string{nil, {"--json"}} {
					if more != nil && (strings.HasPrefix(call, "console") || strings.HasPrefix(call, "rules")) {
						continue
					}
					var out, errs bytes.Buffer
					run(t.Context(), slices.Concat(strings.Fields(call), []string{"--connect", srv.URL}, more), &out, &errs)
					for _, r := range out.String() + errs.String() {
						if r != '\n' && !unicode.IsGraphic(r) {
							t.Errorf("%s %v prints %U: %q, %q", call, more, r, out.String(), errs.String())
							break
						}
					}
					printed = printed || strings.Contains(out.String()+errs.String(), `\x1b]52`)
				}
			}
			if !printed && !strings.HasPrefix(tt.name, "is ") {
				t.Error("nothing of what it says was printed")
			}
		})
	}
}

// What is no gateway's answer fails each command alike: not one takes it for a
// gateway that has nothing to say.
func TestNoCommandTakesAStrangersAnswer(t *testing.T) {
	const long = 50 << 20
	for name, body := range map[string]string{
		"an empty object": `{}`,
		"null":            `null`,
		"nulls":           `{"at":null,"id":null,"message":null,"upstreams":null,"decisions":null,"incidents":null}`,
		"missing fields":  `{"environment":"x","upstreams":[{}],"decisions":[{}],"incidents":[{}],"timeline":[{}]}`,
		"a huge string":   `{"environment":"` + strings.Repeat("A", long) + `"}`,
		"a huge time":     `{"at":"` + strings.Repeat("9", 1<<20) + `","id":"x"}`,
		"a huge gateway":  `{"at":"2026-11-30T04:30:00Z","id":"x","message":"m","environment":"` + strings.Repeat("A", long) + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, body)
			}))
			defer srv.Close()
			for _, call := range []string{
				"status", "decisions", "step a 5", "step a plan", "step a --undo", "state a degraded", "breaker a:text open", "passthrough off", "reload",
				"incident list", "incident show x", "incident report x", "incident open t", "incident note x t", "incident tick x closing-an-incident 1", "incident answer x users t",
				"incident close x", "incident reopen x",
			} {
				for _, more := range [][]string{nil, {"--json"}} {
					var out, errs bytes.Buffer
					code := run(t.Context(), slices.Concat(strings.Fields(call), []string{"--connect", srv.URL}, more), &out, &errs)
					if said := out.String() + errs.String(); code == 0 || !strings.Contains(said, "no answer from "+srv.URL) || len(said) > 1000 {
						t.Errorf("%s %v exits with %d: %.300q, %.300q", call, more, code, out.String(), errs.String())
					}
				}
			}
		})
	}
}
