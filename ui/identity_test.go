package ui

import (
	"strings"
	"testing"
)

// A frozen view says whom a command reaches, as before it was frozen; how to arm
// makes room for it.
func TestFrozenSaysWhomACommandReaches(t *testing.T) {
	for _, names := range [][2]string{{"gw-1", "ana"}, {"gateway-eu-1", "marianne"}} {
		inSituation(t, "incident", 100, 30, func(t *testing.T, m *model) {
			s := incidentState()
			s.Instance, s.You.Name = names[0], names[1]
			give(m, s, nil, nil)
			keys(m, "f")
			m.Update(tickMsg{})
			got := strings.SplitN(screenOf(m), "\n", 2)[0]
			for _, want := range []string{"this gateway only", "READ-ONLY", "FROZEN", s.You.Name, "local"} {
				if !strings.Contains(got, want) {
					t.Errorf("%q is not in %q", want, got)
				}
			}
		})
	}
}
