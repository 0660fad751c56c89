package operator

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"failback/gateway/operator/api"
)

// Every command about an incident reaches the gateway as it was meant, is audited
// before and after, and displaces no write that changed traffic.
func TestIncidentCommands(t *testing.T) {
	ts := start(t, nil)
	ctx := t.Context()
	ana := ts.ana(t)
	if _, err := ana.SetShare(ctx, "a", api.Command{Share: new(5), Reason: "the last write"}); err != nil {
		t.Fatal(err)
	}
	for name, do := range map[string]func() (*api.Result, error){
		"open": func() (*api.Result, error) { return ana.OpenIncident(ctx, "odd answers") },
		"note": func() (*api.Result, error) { return ana.IncidentNote(ctx, "one", "called the provider") },
		"tick": func() (*api.Result, error) {
			return ana.IncidentTick(ctx, "one", api.Tick{Runbook: "provider-5xx", Step: 2, Done: true, Words: "look: "})
		},
		"answer": func() (*api.Result, error) { return ana.IncidentAnswer(ctx, "one", "users", "none", time.Time{}) },
		"close":  func() (*api.Result, error) { return ana.CloseIncidentAnyway(ctx, "one", "a test") },
		"reopen": func() (*api.Result, error) { return ana.ReopenIncident(ctx, "one") },
	} {
		res, err := do()
		if err != nil || res.Incident == nil || res.Incident.ID != "one" {
			t.Errorf("%s: %+v %v", name, res, err)
		}
	}
	_, err := ana.CloseIncident(ctx, "one")
	apiError(t, err, 409, api.CodeBlocked)
	_, err = ana.IncidentNote(ctx, "two", "x")
	apiError(t, err, 404, api.CodeNotFound)

	made := slices.DeleteFunc(ts.control.made(), func(s string) bool { return !strings.HasPrefix(s, incidentAction) })
	slices.Sort(made)
	want := []string{
		`incident_answer "one" by ana: users 0 none`,
		`incident_close "one" by ana:  0 `,
		`incident_close "one" by ana: a test 0 `,
		`incident_note "one" by ana: called the provider 0 `,
		`incident_note "two" by ana: x 0 `,
		`incident_open "" by ana: odd answers 0 `,
		`incident_reopen "one" by ana:  0 `,
		`incident_tick "one" by ana: look: provider-5xx 2 `,
	}
	if !slices.Equal(made, want) {
		t.Errorf("made %q", made)
	}
	trail, err := ana.Audit(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	asked, done := map[string]api.AuditEntry{}, 0
	for _, e := range slices.Backward(trail.Entries) {
		if !strings.HasPrefix(e.Action, incidentAction) {
			continue
		}
		switch e.Phase {
		case api.PhaseAsked:
			asked[e.ID] = e
		case api.PhaseDone:
			done++
			if _, ok := asked[e.ID]; !ok {
				t.Errorf("%+v was not written before", e)
			}
			if e.Result == api.ResultOK && e.Target != "one" {
				t.Errorf("%+v does not say which incident", e)
			}
			if e.Action == ActionIncidentAnswer && (e.To != "users" || e.Why != "none") {
				t.Errorf("%+v does not say what was answered", e)
			}
			if e.Action == ActionIncidentTick && e.To != "provider-5xx step 2 done" {
				t.Errorf("%+v does not say what was ticked", e)
			}
		}
	}
	if len(asked) != 8 || done != 8 {
		t.Errorf("%d asked, %d done", len(asked), done)
	}
	st, err := ana.State(ctx)
	if err != nil || st.LastWrite == nil || st.LastWrite.Action != actionShare {
		t.Errorf("last write %+v %v", st.LastWrite, err)
	}
}

func TestIncidentsAreRead(t *testing.T) {
	ts := start(t, nil)
	vic := ts.client(t, "tcp", vicToken, "")
	all, err := vic.Incidents(t.Context())
	if err != nil || len(all.Incidents) != 1 || all.Incidents[0].ID != "one" {
		t.Errorf("%+v %v", all, err)
	}
	one, err := vic.Incident(t.Context(), "one")
	if err != nil || one.ID != "one" || one.State != api.IncidentOpen {
		t.Errorf("%+v %v", one, err)
	}
	_, err = vic.Incident(t.Context(), "two/../one")
	apiError(t, err, 404, api.CodeNotFound)
	_, err = vic.Incident(t.Context(), "..")
	apiError(t, err, 422, api.CodeInvalid)
	for name, do := range map[string]func(context.Context) (*api.Result, error){
		"open": func(ctx context.Context) (*api.Result, error) { return vic.OpenIncident(ctx, "x") },
		"note": func(ctx context.Context) (*api.Result, error) { return vic.IncidentNote(ctx, "one", "x") },
	} {
		_, err := do(t.Context())
		apiError(t, err, 403, api.CodeForbidden)
		if n := len(ts.control.made()); n != 0 {
			t.Errorf("%s: a viewer's command reached the gateway", name)
		}
	}
}

func TestMalformedIncidentCommands(t *testing.T) {
	ts := start(t, nil)
	for _, tc := range []struct{ path, body, says string }{
		{"incidents", `{}`, "the title is missing"},
		{"incidents", `{"reason":" "}`, "the title is missing"},
		{"incidents", `{"reason":"` + strings.Repeat("x", 201) + `"}`, "the title is over 200 bytes"},
		{"incidents", `{"reason":"` + strings.Repeat("x", 5000) + `"}`, "the title is over 200 bytes"},
		{"incidents", `{"title":"x"}`, "means nothing"},
		{"incidents/one/note", `{}`, "the note is missing"},
		{"incidents/one/note", `{"reason":"` + strings.Repeat("x", 1001) + `"}`, "the note is over 1000 bytes"},
		{"incidents/one/tick", `{"runbook":"x","step":1,"done":true,"reason":"` + strings.Repeat("x", 1001) + `"}`, "the wording of the step is over 1000 bytes"},
		{"incidents/one/close", `{"override":true,"reason":"` + strings.Repeat("x", 1001) + `"}`, "the reason is over 1000 bytes"},
		{"incidents/one/close", `{"override":true,"reason":"\u0001"}`, "the reason has the control character U+0001"},
		{"incidents/one/tick", `{"step":1,"done":true}`, "runbook is missing"},
		{"incidents/one/tick", `{"runbook":"x","done":true}`, "not from 1 to"},
		{"incidents/one/tick", `{"runbook":"x","step":1001,"done":true}`, "not from 1 to"},
		{"incidents/one/tick", `{"runbook":"x","step":1}`, "done is missing"},
		{"incidents/one/tick", `{"runbook":"` + strings.Repeat("x", 257) + `","step":1,"done":true}`, "over 256 bytes"},
		{"incidents/one/tick", `{"Runbook":"x","step":1,"done":true}`, "means nothing"},
		{"incidents/one/tick", `{"runbook":"x\u0000","step":1,"done":true}`, "the runbook has the control character U+0000"},
		{"incidents/one/note", `{"reason":"a\u001b[2J"}`, "the note has the control character U+001B"},
		{"incidents/one/note", `{"reason":"a\u009b2J"}`, "the note has the control character U+009B"},
		{"incidents/one/answer", `{"question":"users","answer":"\u007f"}`, "the answer has the control character U+007F"},
		{"incidents", `{"reason":"\r"}`, "the title has the control character U+000D"},
		{"incidents/one/answer", `{"question":"why","answer":"x"}`, "none that is asked"},
		{"incidents/one/answer", `{"question":"users","answer":" "}`, "answer is missing"},
		{"incidents/one/answer", `{"question":"users","answer":"` + strings.Repeat("x", 1001) + `"}`, "over 1000 bytes"},
		{"incidents/one/close", `{"override":true}`, "needs a reason"},
		{"incidents/one/reopen", `{"override":true}`, "means nothing"},
	} {
		status, body := ts.raw(t, "POST", apiPrefix+tc.path, tc.body, "Authorization", "Bearer "+anaToken)
		if status != 422 || !strings.Contains(body, tc.says) {
			t.Errorf("%s %s: %d %s", tc.path, tc.body, status, body)
		}
	}
	if made := ts.control.made(); len(made) != 0 {
		t.Errorf("reached the gateway: %q", made)
	}
}

// What is refused is audited as it was asked for: what was not read, or not said, is
// not there, and a control character is written out.
func TestMalformedCommandsAreAuditedAsAsked(t *testing.T) {
	ts := start(t, nil)
	for _, tc := range []struct{ path, body, to, why string }{
		{"incidents/one/tick", `{"runbook":"x","step":1.5}`, "x", ""},
		{"incidents/one/tick", `{"runbook":"x","step":1}`, "x step 1", ""},
		{"incidents/one/tick", `{"step":"2","runbook":"x","done":false}`, "x not done", ""},
		{"incidents/one/tick", `{"step":2,"done":true}`, "step 2 done", ""},
		{"incidents/one/tick", `{"runbook":"x","Step":2,"done":true}`, "x done", ""},
		{"incidents/one/tick", `{}`, "", ""},
		{"incidents/one/tick", `[]`, "", ""},
		{"incidents/one/answer", `{"seen":"now","question":"users","answer":"none"}`, "users", "none"},
		{"incidents/one/note", `{"reason":"a\u001b[2J\nb"}`, "", `a\x1b[2J` + "\nb"},
		{"upstreams/a/share", `{"share":1.5,"reason":"r"}`, "", "r"},
		{"upstreams/a/share", `{"share":5,"share":50}`, "5", ""},
	} {
		status, body := ts.raw(t, "POST", apiPrefix+tc.path, tc.body, "Authorization", "Bearer "+anaToken)
		trail, err := ts.ana(t).Audit(t.Context(), 1)
		if status != 422 || err != nil || len(trail.Entries) != 1 {
			t.Fatalf("%s %s: %d %s %v", tc.path, tc.body, status, body, err)
		}
		if e := trail.Entries[0]; e.Phase != api.PhaseRefused || e.To != tc.to || e.Why != tc.why {
			t.Errorf("%s %s: %+v, want to %q, why %q", tc.path, tc.body, e, tc.to, tc.why)
		}
	}
	_, err := ts.ana(t).SetShare(t.Context(), "\x1b[2J", api.Command{Share: new(5)})
	apiError(t, err, 404, api.CodeNotFound)
	trail, err := ts.ana(t).Audit(t.Context(), 1)
	if err != nil || trail.Entries[0].Target != `\x1b[2J` {
		t.Errorf("%+v %v", trail, err)
	}
}
