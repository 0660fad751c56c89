package evidence

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

var sureAfter = regexp.MustCompile(`; sure after (\d+) more without a failure, (\d+) if they go as usual$`)

// A window without a failure says how many more such requests it takes, and that many
// pass it, not one less; the other number is that of a window that goes as usual.
func TestSureAfterIsWhenItPasses(t *testing.T) {
	b := FromObjective(Objective{}, 12*time.Second)
	fast := good(700 * time.Millisecond)
	for _, n := range []int{1, 60, 195, 196} {
		w := served(n)
		text := row(t, Judge(w, nil, b, terms, 5), RowSuccess).Text
		m := sureAfter.FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("after %d: %q", n, text)
		}
		more, _ := strconv.Atoi(m[1])
		if usual, _ := strconv.Atoi(m[2]); usual <= more {
			t.Errorf("after %d: %q", n, text)
		}
		times(&w, more-1, fast)
		if r := row(t, Judge(w, nil, b, terms, 5), RowSuccess); r.Verdict != NoData {
			t.Errorf("after %d and %d more: %+v", n, more-1, r)
		}
		times(&w, 1, fast)
		if r := row(t, Judge(w, nil, b, terms, 5), RowSuccess); r.Verdict != Pass {
			t.Errorf("after %d and %d more: %+v", n, more, r)
		}
		if n+more != 197 {
			t.Errorf("after %d it is %d more, not 197 in all as docs/failback.md has it", n, more)
		}
	}
}

// With failures, or where none are usual, there is one number; where what is usual
// would never do, only that of requests without a failure; where nothing does, none.
func TestSureAfterSaysWhatIsKnown(t *testing.T) {
	for _, tc := range []struct {
		name           string
		k, n           float64
		bound, usually float64
		part           float64
		says           string
	}{
		{"none failed", 0, 60, 0.02, 0.01, 1, fmt.Sprintf("; sure after %.0f more without a failure, %.0f if they go as usual", remaining(0, 60, 0.02, 0.01, 0), remaining(0, 60, 0.02, 0.01, 0.01))},
		{"one failed", 1, 60, 0.02, 0.01, 1, fmt.Sprintf("; sure after %.0f more if they go as usual", remaining(1, 60, 0.02, 0.01, 0.01))},
		{"no failures are usual", 0, 60, 0.02, 0, 1, fmt.Sprintf("; sure after %.0f more if they go as usual", remaining(0, 60, 0.02, 0, 0))},
		{"the usual is on the bound", 0, 60, 0.02, 0.02, 1, fmt.Sprintf("; sure after %.0f more without a failure", remaining(0, 60, 0.02, 0.02, 0))},
		{"half are measured", 0, 60, 0.02, 0.01, 0.5, fmt.Sprintf("; sure after %.0f more without a failure, %.0f if they go as usual", 2*remaining(0, 60, 0.02, 0.01, 0), 2*remaining(0, 60, 0.02, 0.01, 0.01))},
		{"nothing measures it", 0, 60, 0.02, 0.01, 0, "; not sure yet"},
		{"nothing may fail", 0, 60, 0, 0, 1, "; not sure yet"},
	} {
		r := watched{k: tc.k, n: tc.n, bound: tc.bound, expected: tc.usually, step: 0.01}
		r.test()
		got := (&judge{}).ratio(RowSuccess, r, "x", "without a failure", tc.part)
		if got.Verdict != NoData || strings.TrimPrefix(got.Text, "x") != tc.says {
			t.Errorf("%s: %+v, want %q", tc.name, got, tc.says)
		}
	}
}

// remaining is exact: as many do, one less does not.
func TestRemainingIsTheLeastThatDoes(t *testing.T) {
	for _, bound := range []float64{1e-4, 0.0105, 0.02, 0.06, 0.5} {
		for _, n := range []float64{0, 1, 60, 1000} {
			m := remaining(0, n, bound, bound/2, 0)
			if m == 0 {
				continue
			}
			if keptEvidence(0, n+m, bound, bound/2) < passAt || keptEvidence(0, n+m-1, bound, bound/2) >= passAt || m != math.Trunc(m) {
				t.Errorf("bound %v after %v: %v", bound, n, m)
			}
		}
	}
	if m := remaining(0, 10, 0, 0, 0); m != never {
		t.Errorf("where nothing may fail: %v", m)
	}
}
