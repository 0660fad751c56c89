package panicsite

import (
	"regexp"
	"testing"
)

// recovered is the name of the panic that f ends with.
func recovered(f func()) (name string) {
	defer func() {
		if recover() != nil {
			name = Name()
		}
	}()
	f()
	return ""
}

func TestName(t *testing.T) {
	var none map[string]int
	here := regexp.MustCompile(`name_test\.go:\d+$`)
	for what, f := range map[string]func(){
		"called by hand": func() { panic("x") },
		"of the runtime": func() { none["x"]++ },
	} {
		if name := recovered(f); !here.MatchString(name) {
			t.Errorf("%s: %q", what, name)
		}
	}
	if name := Name(); name != "unknown" {
		t.Errorf("without a panic: %q", name)
	}
}
