package gateway_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"failback/gateway/decision"
	"failback/gateway/health/probe"
)

const (
	badKey    = `{"error":{"message":"bad key","code":"invalid_api_key"}}`
	noAccount = `{"error":{"code":"insufficient_quota"}}`
	noModel   = `{"error":{"message":"The model x does not exist","type":"invalid_request_error","code":"model_not_found"}}`
	noName    = `{"error":{"message":"no such thing","type":"not_found_error"}}`
)

// What an upstream refused stands in the metrics until it takes it, although
// nobody asks it meanwhile: alerts end no sooner than their cause.
func TestWhatIsRefusedStandsUntilItIsTaken(t *testing.T) {
	for _, tc := range []struct {
		name  string
		play  func(*exchange)
		class decision.Class
	}{
		{"a key", status(401, badKey), decision.Credential},
		{"an account", status(402, noAccount), decision.QuotaExhausted},
		{"a model", status(404, noModel), decision.ModelGone},
		{"a model that is not named", status(404, noName), decision.ModelGone},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inScene(t, setting{more: "errors: {credential: switch}\n"}, func(w *scene) {
				series := fmt.Sprintf(`failback_upstream_refuses{class="%s",provider="A",region="global"}`, tc.class)
				is := func(when string, want float64) {
					t.Helper()
					synctest.Wait()
					if got := w.gw.Series()[series]; got != want {
						t.Errorf("%s: %v", when, got)
					}
				}
				if _, ok := w.gw.Series()[series]; !ok {
					w.Fatalf("there is no %s", series)
				}
				is("before", 0)
				w.up["A"].plays(tc.play)
				if r := w.probe(probeOf(decision.Text)); r.Verdict() != probe.Failed {
					t.Fatalf("%+v", r)
				}
				is("a probe was refused", 1)
				w.up["A"].plays(ok)
				if g := w.chat(); g.header.Get("Failback-Upstream") != "A" {
					t.Fatalf("a probe kept clients away: %+v", g)
				}
				is("a request was taken", 0)
				w.up["A"].plays(tc.play)
				w.chat()
				is("a request was refused", 1)
				<-time.After(2 * time.Hour)
				is("nobody asked for long", 1)
				w.up["A"].plays(ok)
				if g := w.chat(); g.header.Get("Failback-Upstream") != "A" {
					t.Fatalf("%+v", g)
				}
				is("a request was taken again", 0)
				w.up["A"].plays(tc.play)
				w.probe(probeOf(decision.Text))
				is("a probe was refused again", 1)
				w.up["A"].plays(ok)
				w.probe(probeOf(decision.Text))
				is("a probe was taken", 0)
			})
		})
	}
}
