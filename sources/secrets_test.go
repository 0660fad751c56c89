package sources

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// No server can bring a secret that it was shown back to the eye: not in an
// error of any status, not in a warning or a note, whole or in part.
func TestSecretsDoNotComeBack(t *testing.T) {
	basic := func(user, password string) string {
		return base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
	}
	for _, shown := range []struct {
		name   string
		env    []string // without the prefix
		secret []string // what the server may say of it
	}{
		{"basic", []string{"USERNAME", "ana", "PASSWORD", `hunt"er2`}, []string{`hunt"er2`, basic("ana", `hunt"er2`), "Basic " + basic("ana", `hunt"er2`), "ana:" + `hunt"er2`, "hunt%22er2"}},
		{"a short password", []string{"USERNAME", "ana", "PASSWORD", "z9"}, []string{"z9", "ana:z9", basic("ana", "z9")}},
		{"bearer", []string{"BEARER_TOKEN", "s3cr3t"}, []string{"s3cr3t", "Bearer s3cr3t"}},
		{"a header with a scheme", []string{"HEADERS", "Authorization: Bearer s3cr3t"}, []string{"s3cr3t", "Bearer s3cr3t"}},
		{"a header with basic", []string{"HEADERS", "Authorization: Basic " + basic("ana", "hunter2")}, []string{"hunter2", "ana:hunter2", basic("ana", "hunter2")}},
		{"a header of their own", []string{"HEADERS", "X-Key: abcd1234"}, []string{"abcd1234"}},
		{"another header for it", []string{"AUTH_HEADER", "X-Token", "BEARER_TOKEN", "tok"}, []string{"tok", "Bearer tok"}},
		{"cookies", []string{"HEADERS", "Cookie: a=one; session=\"s3cr3t\""}, []string{"s3cr3t", "one"}},
	} {
		for _, secret := range shown.secret {
			said, _ := json.Marshal("token " + secret + " expired") // of a string
			vector := `"data":{"resultType":"vector","result":[{"metric":{},"value":[1,"1"]}]}`
			for name, answer := range map[string]http.HandlerFunc{
				"401 in words":   answers(401, "text/plain", "token "+secret+" expired"),
				"401 in JSON":    answers(401, "application/json", `{"status":"error","errorType":"unauthorized","error":`+string(said)+`}`),
				"401 by message": answers(401, "application/json", `{"message":`+string(said)+`}`),
				"torn JSON":      answers(400, "application/json", `{"error":`+string(said)),
				"500":            answers(500, "text/plain", "token "+secret+" expired"),
				"2xx error":      answers(200, "application/json", `{"status":"error","errorType":"execution","error":`+string(said)+`}`),
				"2xx type":       answers(200, "application/json", `{"status":"error","errorType":`+string(said)+`,"error":"x"}`),
				"no query":       answers(200, "application/json", `{"status":"error","errorType":"bad_data","error":"no expression found in input, `+strings.Trim(string(said), `"`)+`"}`),
				"warning":        answers(200, "application/json", `{"status":"success",`+vector+`,"warnings":["ok",`+string(said)+`],"infos":[`+string(said)+`]}`),
				"odd warning":    answers(200, "application/json", `{"status":"success",`+vector+`,"Warnings":[`+string(said)+`]}`),
				"shape":          answers(200, "application/json", `{"status":"success","data":{"resultType":`+string(said)+`,"result":[]}}`),
				"page":           answers(401, "text/html", "<html>token "+secret+" expired</html>"),
				"page as 200":    answers(200, "text/html", "<html>token "+secret+" expired</html>"),
				"type":           answers(200, "application/x-"+strings.NewReplacer(" ", "-", `"`, "", "%", "", ":", "-").Replace(secret), "token "+secret+" expired"),
				"redirect": func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Location", "https://"+strings.NewReplacer(" ", ".", `"`, "", "%", "", ":", ".", "=", "").Replace(secret)+".example/")
					w.WriteHeader(302)
				},
			} {
				t.Run(shown.name+"/"+name, func(t *testing.T) {
					var env []string
					for _, prefix := range []string{"LOKI_", "PROMETHEUS_"} {
						for i := 0; i < len(shown.env); i += 2 {
							env = append(env, prefix+shown.env[i], shown.env[i+1])
						}
					}
					m, l := clients(t, serve(t, answer), env...)
					for who, text := range told(t.Context(), m, l) {
						if at := strings.Index(text, "token "+secret); at >= 0 || strings.Contains(text, secret) && len(secret) >= shortSecret {
							t.Errorf("%s: %q", who, text)
						}
					}
				})
			}
		}
	}
}

// told is all that two clients tell of what servers say.
func told(ctx context.Context, m Metrics, l Logs) map[string]string {
	all := map[string]string{}
	add := func(who string, err error, more ...[]string) {
		text := fmt.Sprint(more)
		if err != nil {
			text += Why(err)
			if e, ok := err.(*RemoteError); ok {
				text += e.Message
			}
		}
		all[who] = text
	}
	o := m.Overview(ctx, 1)
	add("overview", o.Err)
	if v := o.Value; v != nil {
		add("overview's warnings", nil, v.Warnings, v.Notes)
	}
	_, q, err := query(ctx, m, "up")
	add("query", err)
	add("query's warnings", nil, q.warnings, q.infos)
	h := m.History(ctx, 1, nil)
	add("history", h.Err)
	if v := h.Value; v != nil {
		add("history's warnings", nil, v.Warnings)
	}
	for _, q := range []LogQuery{{Query: DefaultStreams}, {Query: "sum(count_over_time({a=~\".+\"}[1m]))", Instant: true}} {
		a := l.Query(ctx, 1, q)
		add("lines "+q.Query, a.Err)
		if v := a.Value; v != nil {
			add("lines' warnings "+q.Query, nil, v.Warnings)
		}
	}
	return all
}

func TestRedact(t *testing.T) {
	for _, tt := range []struct {
		text    string
		secrets []string
		want    string
	}{
		{"token s3cr3t expired", []string{"Bearer s3cr3t", "s3cr3t"}, "token xxxxx expired"},
		{"Bearer s3cr3t and s3cr3t", []string{"s3cr3t", "Bearer s3cr3t"}, "xxxxx and xxxxx"},
		{"as3cr3tb", []string{"s3cr3t"}, "axxxxxb"},
		{"ab, ab:c (ab) cab abc ab", []string{"ab"}, "xxxxx, xxxxx:c (xxxxx) cab abc xxxxx"},
		{"x", []string{"x"}, "xxxxx"},
		{"xx x", []string{"x"}, "xx xxxxx"},
		{"\u00e9ab ab", []string{"ab"}, "\u00e9ab xxxxx"},
		{"a+b a%2Bb a\\u003cb", []string{"a+b", "a<b"}, "xxxxx xxxxx xxxxx"},
		{"nothing", []string{""}, "nothing"},
		{"nothing", nil, "nothing"},
	} {
		if got := redact(tt.text, spelled(tt.secrets)); got != tt.want {
			t.Errorf("%q without %q: %q, want %q", tt.text, tt.secrets, got, tt.want)
		}
	}
	// A tenant's number is no secret.
	if got := secretsIn(http.Header{"X-Scope-Orgid": {"1"}, "X-Key": {"abc"}}, "Authorization"); len(got) != 0 {
		t.Errorf("secrets %q", got)
	}
}

// The data of an answer are as they came.
func TestAnswersAreNotRedacted(t *testing.T) {
	const line = "a line with s3cr3t"
	_, l := clients(t, serve(t, answers(200, "application/json", `{"status":"success","data":{"resultType":"streams","result":[{"stream":{},"values":[["1","`+line+`"]]}]},"warnings":["s3cr3t"]}`)),
		"LOKI_BEARER_TOKEN", "s3cr3t")
	a := l.Query(t.Context(), 1, LogQuery{Query: DefaultStreams})
	if a.Err != nil || len(a.Value.Rows) != 1 || a.Value.Rows[0].Line != line || len(a.Value.Warnings) != 1 || a.Value.Warnings[0] != "xxxxx" {
		t.Errorf("%+v, %v", a.Value, a.Err)
	}
}
