package gateway_test

import (
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
