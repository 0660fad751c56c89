package text

import (
	"strings"
	"testing"

	"failback/gateway/operator/api"
)

// What the gateway keeps itself is named where it lacks something, a full disk
// for one, and not otherwise.
func TestStatusNamesWhatIsNotKept(t *testing.T) {
	s := &api.State{At: now, Store: api.Store{Kind: "embedded"}}
	if got := strings.Join(strings.Fields(Status(s)), " "); strings.Contains(got, "numbers") || strings.Contains(got, "embedded lines") {
		t.Errorf("nothing is lacking:\n%s", got)
	}
	s.Sources.Prometheus.Error, s.Sources.Loki.Error = "no space left on device", "12 lines were dropped: no space left on device"
	got := strings.Join(strings.Fields(Status(s)), " ")
	for _, want := range []string{"numbers no space left on device", "lines 12 lines were dropped"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}
