package gateway_test

import (
	"testing"
	"time"

	"failback/gateway/decision"
)

// STR-01: an upstream that drops a stream midway. The client is told, once.
func TestSTR01(t *testing.T) {
	inScene(t, setting{}, func(w *scene) {
		w.up["A"].plays(func(e *exchange) {
			e.sse()
			for range 40 {
				e.piece(chatChunk("word "))
				e.wait(20 * time.Millisecond)
			}
			e.cut()
		})
		g := w.chatS()
		if errs := g.errorFrames(); len(errs) != 1 || g.frames[len(g.frames)-1] != errs[0] {
			t.Errorf("errors %q, last %q", errs, g.frames[len(g.frames)-1])
		}
		if g.count("[DONE]") != 0 || g.count("word") != 40 {
			t.Errorf("%d [DONE], %d words", g.count("[DONE]"), g.count("word"))
		}
		if w.asked() != "A1 B0 C0" {
			t.Errorf("asked %s", w.asked())
		}
		if d := w.last(); d.WorkflowStatus != string(decision.Incomplete) || classes(d) != "A:interrupted" {
			t.Errorf("status %s, attempts %s", d.WorkflowStatus, classes(d))
		}
		if b := w.bucket("A:stream"); b.Failures != 1 {
			t.Errorf("%d failures", b.Failures)
		}
	})
}
