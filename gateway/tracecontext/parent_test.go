package tracecontext

import (
	"net/http"
	"strings"
	"testing"
)

const (
	trace  = "4bf92f3577b34da6a3ce929d0e0e4736"
	parent = "00f067aa0ba902b7"
)

func TestTraceparent(t *testing.T) {
	for in, want := range map[string]string{
		"00-" + trace + "-" + parent + "-01":                             "00-" + trace + "-" + parent + "-01",
		"00-" + trace + "-" + parent + "-00":                             "00-" + trace + "-" + parent + "-00",
		" 00-" + trace + "-" + parent + "-03\t":                          "00-" + trace + "-" + parent + "-03",
		"00-" + trace + "-" + parent + "-ff":                             "00-" + trace + "-" + parent + "-03", // unknown flags are not ours to pass on
		"cc-" + trace + "-" + parent + "-01":                             "00-" + trace + "-" + parent + "-01", // a later version, by its first fields
		"cc-" + trace + "-" + parent + "-01-what.the.future-has":         "00-" + trace + "-" + parent + "-01",
		"cc-" + trace + "-" + parent + "-01.what":                        "",
		"00-" + trace + "-" + parent + "-01-more":                        "",
		"00-" + trace + "-" + parent + "-01-":                            "",
		"ff-" + trace + "-" + parent + "-01":                             "",
		"0-" + trace + "-" + parent + "-01":                              "",
		"00-" + strings.Repeat("0", 32) + "-" + parent + "-01":           "",
		"00-" + trace + "-" + strings.Repeat("0", 16) + "-01":            "",
		"00-" + strings.ToUpper(trace) + "-" + parent + "-01":            "",
		"00-" + trace + "-" + strings.ToUpper(parent) + "-01":            "",
		"0X-" + trace + "-" + parent + "-01":                             "",
		"00-" + trace + "-" + parent + "-0A":                             "",
		"00-" + trace + "-" + parent + "-1":                              "",
		"00_" + trace + "_" + parent + "_01":                             "",
		"00-" + trace[:31] + "-" + parent + "-01":                        "",
		"00-" + trace[:31] + "g-" + parent + "-01":                       "",
		"00-" + trace + "-" + parent + "-01, 00-" + trace + "-" + parent: "",
		"garbage": "",
		"":        "",
	} {
		p, ok := Of(http.Header{"Traceparent": {in}, "Tracestate": {"a=1"}})
		switch {
		case ok != (want != ""):
			t.Errorf("%q: valid is %t", in, ok)
		case ok && (Format(p.TraceID, p.Span, p.Flags) != want || p.State != "a=1"):
			t.Errorf("%q: %+v", in, p)
		case !ok && p != (Parent{}):
			t.Errorf("%q: %+v is left of what is invalid", in, p)
		}
	}
	two := "00-" + trace + "-" + parent + "-01"
	if _, ok := Of(http.Header{"Traceparent": {two, two}}); ok {
		t.Error("two headers")
	}
	if _, ok := Of(http.Header{"Tracestate": {"a=1"}}); ok {
		t.Error("none")
	}
}

func TestTracestate(t *testing.T) {
	member := func(n int) string { return "k=" + strings.Repeat("v", n) }
	var many []string
	for i := range 33 {
		many = append(many, "k"+strings.Repeat("x", i)+"=1")
	}
	for _, tt := range []struct {
		in   []string
		want string
	}{
		{nil, ""},
		{[]string{"congo=t61rcWkgMzE,rojo=00f067aa0ba902b7"}, "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7"},
		{[]string{"a=1 , b=2,, ", "\tc=3"}, "a=1,b=2,c=3"},
		{[]string{"fw529a3039@dt=FfAAAA", "0tenant@sys=1", "a_-*/0=!~ x"}, "fw529a3039@dt=FfAAAA,0tenant@sys=1,a_-*/0=!~ x"},
		{[]string{"a=1,a=2"}, ""},
		{[]string{"a=1=2"}, ""},
		{[]string{"a="}, ""},
		{[]string{"a"}, ""},
		{[]string{"=1"}, ""},
		{[]string{"A=1"}, ""},
		{[]string{"1a=1"}, ""},
		{[]string{"a@=1"}, ""},
		{[]string{"a@b@c=1"}, ""},
		{[]string{"a=\x01"}, ""},
		{[]string{"a=é"}, ""},
		{[]string{member(256)}, member(256)},
		{[]string{member(257)}, ""},
		{[]string{member(256) + ",l=" + strings.Repeat("v", 256)}, ""},
		{[]string{strings.Join(many[:20], ",")}, strings.Join(many[:20], ",")},
		{[]string{strings.Repeat("a,", 40)}, ""},
	} {
		if got := state(tt.in); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.in, got, tt.want)
		}
	}
	if got := state([]string{strings.Join(many, ",")}); got != "" {
		t.Errorf("33 members: %q", got)
	}
}

func TestNewIDs(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		id, span := NewTraceID(), NewSpanID()
		if _, ok := parse(Format(id, span, Random)); !ok || seen[id] || seen[span.String()] {
			t.Fatalf("%s, %s", id, span)
		}
		seen[id], seen[span.String()] = true, true
	}
}

func TestChosen(t *testing.T) {
	for part, bounds := range map[float64][2]int{0: {0, 0}, 0.1: {800, 1200}, 0.5: {4700, 5300}, 1: {10000, 10000}} {
		n := 0
		for range 10000 {
			if id := NewTraceID(); Chosen(id, part) {
				n++
				if !Chosen(id, min(part*2, 1)) {
					t.Errorf("%s is chosen of %g and not of more", id, part)
				}
			}
		}
		if n < bounds[0] || n > bounds[1] {
			t.Errorf("%g: %d of 10000", part, n)
		}
	}
	// The border is where OpenTelemetry has it.
	if !Chosen(strings.Repeat("0", 16)+"0000000000000000", 0.000001) || Chosen(strings.Repeat("f", 32), 0.999999) || Chosen("x", 0.5) {
		t.Error("not by the last eight bytes")
	}
}

func FuzzTraceparent(f *testing.F) {
	f.Add("00-"+trace+"-"+parent+"-01", "a=1")
	f.Add("cc-"+trace+"-"+parent+"-01-x", "a=1,b=2")
	f.Fuzz(func(t *testing.T, in, list string) {
		p, ok := Of(http.Header{"Traceparent": {in}, "Tracestate": {list}})
		if !ok {
			return
		}
		again, ok := Of(http.Header{"Traceparent": {Format(p.TraceID, p.Span, p.Flags)}, "Tracestate": {p.State}})
		if !ok || again != p {
			t.Errorf("%q, %q: %+v is read as %+v", in, list, p, again)
		}
	})
}
