package gateway_test

import (
	"errors"
	"testing"
	"time"

	"failback/gateway/operator/api"
)

// A raise that somebody overtook lowers nothing: it is refused as stale, and
// goes by the sight of what is now.
func TestAnOvertakenRaiseDoesNotLower(t *testing.T) {
	inWard(t, illness{}, func(w *ward) {
		w.passes(time.Minute)
		w.leaves("A", "ann")
		w.stepsUp("A", 10*time.Minute)
		seen, more, most := w.upstream("A"), 75, 100
		if err := w.command("A", "ben", api.Command{Share: &most, From: &seen.Share, Revision: &seen.Revision, Override: true, Reason: "known"}); err != nil {
			t.Fatal(err)
		}
		for _, overridden := range []bool{false, true} {
			err := w.command("A", "ann", api.Command{Share: &more, From: &seen.Share, Revision: &seen.Revision, Override: overridden, Reason: "probe ok"})
			if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != api.CodeStaleRevision || e.Upstream == nil || e.Upstream.Share != most {
				t.Errorf("overridden %t: %v", overridden, err)
			}
		}
		if u := w.upstream("A"); u.Share != most {
			t.Fatalf("at %d%%\n%s", u.Share, w.tell())
		}
		// The same share asked for as a lowering goes through on any revision.
		if err := w.command("A", "ann", api.Command{Share: &more, From: &most, Revision: &seen.Revision}); err != nil || w.upstream("A").Share != more {
			t.Errorf("a lowering was refused: %v", err)
		}
	})
}
