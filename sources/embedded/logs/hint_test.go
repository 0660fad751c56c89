package logs

import (
	"context"
	"testing"

	"failback/sources/logql"
)

// Conditions that speak of a label of the stream, or whose text bytes that are
// not UTF-8 may become, leave no line out.
func TestHintsLeaveNothingOut(t *testing.T) {
	s := open(t, Options{Dir: t.TempDir(), Labels: map[string]string{"service_name": "failback", "instance": "gw-1", "event": "of the stream"}})
	store(t, s, at(1, `"event":"probe"`), at(2, `"event":"probe","instance":"gw-2"`), at(3, "\"event\":\"probe\",\"note\":\"a\xffbc d\""),
		at(4, `"event":"probe","note":"caf\u00e9s"`))
	for query, want := range map[string]int{
		`{service_name="failback"} | json | instance="gw-1"`:             4,
		`{service_name="failback"} | json | instance_extracted="gw-2"`:   1,
		`{service_name="failback"} | json | event="of the stream"`:       4,
		`{service_name="failback"} | json | event_extracted="probe"`:     4,
		`{service_name="failback"} | json | note="a bc d"`:               1,
		`{service_name="failback"} | json | note="cafés"`:                1,
		`{service_name="failback"} | json | event="probe"`:               0,
		`{service_name="failback"} | json | instance="gw-1" |= "gw-2"`:   1,
		`{service_name="failback",instance="gw-1"} | json | note="none"`: 0,
	} {
		q, err := logql.Parse(query)
		if err != nil {
			t.Fatal(err)
		}
		for _, source := range []logql.Source{s, plain{s}} {
			r, err := logql.Eval(context.Background(), source, logql.Request{Query: q, Start: 0, End: 10, Limit: 100})
			if err != nil {
				t.Fatalf("%s: %v", query, err)
			}
			n := 0
			for _, st := range r.Streams {
				n += len(st.Lines)
			}
			if n != want {
				t.Errorf("%s from %T: %d lines, want %d", query, source, n, want)
			}
		}
	}
}

// plain is a source that honours no hint.
type plain struct{ logql.Source }

func (p plain) Select(ctx context.Context, sel logql.Selection, yield func(logql.Entry) bool) error {
	sel.Where, sel.Contains = nil, nil
	return p.Source.Select(ctx, sel, yield)
}
