package gateway_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"failback/gateway/operator/api"
)

// While a lowering is being written down, what the higher step had shown counts
// neither for the lower one nor for what is said of it.
func TestALoweringIsNotJudgedByTheStepItLeft(t *testing.T) {
	storage := &moodyStorage{}
	inWard(t, illness{rate: 10, streams: true, failback: ", advance: auto", storage: storage}, func(w *ward) {
		w.passes(time.Minute)
		w.leaves("A", "ann")
		w.stepsUp("A", 10*time.Minute)
		w.until("A is at 75", 10*time.Minute, func(s api.State) bool { return of(s, "A").Share == 75 })
		// Passed, but the storage does not let it go on.
		storage.becomes(true, 0)
		w.until("the evidence passes", 5*time.Minute, func(s api.State) bool {
			e := of(s, "A").Evidence
			return of(s, "A").Share == 75 && e != nil && e.Verdict == "pass"
		})
		storage.becomes(false, 1900*time.Millisecond)
		if err := w.share("A", "bob", 25); err != nil {
			t.Fatal(err)
		}
		storage.becomes(false, 0)
		w.passes(10 * time.Second)
		if u := w.upstream("A"); u.Share != 25 {
			t.Fatalf("%+v\n%s", u, w.tell())
		}
	})
}

// What is said of an upstream's health is of the step it is at.
func TestHealthIsToldOfTheStepInForce(t *testing.T) {
	inWard(t, illness{}, func(w *ward) {
		w.passes(time.Minute)
		w.leaves("A", "ann")
		w.stepsUp("A", 10*time.Minute)
		w.passes(2 * time.Second)
		if u := w.upstream("A"); !strings.Contains(u.HealthReason, "25%") {
			t.Fatalf("not judged: %s", u.HealthReason)
		}
		revision, share := w.upstream("A").Revision, 75
		if err := w.command("A", "ann", api.Command{Share: &share, Revision: &revision, Override: true, Reason: "known"}); err != nil {
			t.Fatal(err)
		}
		if u := w.upstream("A"); u.Share != 75 || strings.Contains(u.HealthReason, "25%") {
			t.Errorf("at %d%%: %s", u.Share, u.HealthReason)
		}
	})
}

// Whom a message reaches must not have to guess who took an upstream out.
func TestWhoDegradedIsTold(t *testing.T) {
	inWard(t, illness{}, func(w *ward) {
		w.passes(time.Minute)
		w.leaves("A", "ann")
		w.passes(2 * time.Minute)
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, n := range w.told {
			if n.Kind == "degraded" && n.Detail == "by ann: drill" {
				return
			}
		}
		t.Errorf("%+v", w.told)
	})
}

// Clients that give a request less time than it usually takes say nothing of
// the upstream, wherever they get their answer then: neither breaker nor step.
func TestHastyClientsAreNoEvidence(t *testing.T) {
	inWard(t, illness{streams: true, rate: 10}, func(w *ward) {
		w.up["A"].plays(func(e *exchange) {
			if e.wait(300 * time.Millisecond) {
				ok(e)
			}
		})
		hasty := func(talk int) {
			r := httptest.NewRequest(http.MethodPost, chatPath, strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`)).WithContext(w.life)
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Failback-Deadline-Ms", "500") // half of it for A, of which no whole answer is known
			r.Header.Set("Failback-Conversation", fmt.Sprintf("hasty%d", talk))
			rec := httptest.NewRecorder()
			w.gw.ServeClient(rec, r)
			if by := rec.Header().Get("Failback-Upstream"); by == "A" {
				t.Error("A had the time")
			}
		}
		w.passes(time.Minute)
		w.leaves("A", "ann")
		w.stepsUp("A", 10*time.Minute)
		for i := range 60 {
			for n := range 10 {
				w.clients.Go(func() { hasty(10*i + n) })
			}
			w.passes(time.Second)
		}
		u := w.upstream("A")
		if u.Share != 25 || u.Retreats != 0 || u.Evidence == nil || u.Evidence.Failed != 0 || u.Evidence.Requests == 0 {
			t.Errorf("%+v\n%s", u.Evidence, w.tell())
		}
	})
}
