package gateway_test

import (
	"reflect"
	"testing"
	"time"

	"failback/gateway/operator/api"
	"failback/gateway/traffic/evidence"
	"failback/internal/bubble"
)

// A window counts seconds and knows no time of day, so that no clock that is
// set can lengthen or shorten it.
func TestWindowsKnowNoTimeOfDay(t *testing.T) {
	var walk func(reflect.Type, string)
	seen := map[reflect.Type]bool{}
	walk = func(x reflect.Type, path string) {
		if x == reflect.TypeFor[time.Time]() {
			t.Errorf("%s is a time of day", path)
		}
		if seen[x] {
			return
		}
		seen[x] = true
		switch x.Kind() {
		case reflect.Struct:
			for f := range x.Fields() {
				walk(f.Type, path+"."+f.Name)
			}
		case reflect.Slice, reflect.Array, reflect.Pointer, reflect.Map:
			walk(x.Elem(), path+"[]")
		}
	}
	walk(reflect.TypeFor[evidence.Window](), "Window")
}

// The hours in which a gateway is down add nothing to what a step has served,
// nor to how long the whole share was held.
func TestDowntimeServesNobody(t *testing.T) {
	inWard(t, illness{rate: 2, streams: true, health: "recovery_window: 10m"}, func(w *ward) {
		w.passes(time.Minute)
		w.leaves("A", "ann")
		w.stepsUp("A", 10*time.Minute)
		w.passes(20 * time.Second)
		down := func(share int) {
			t.Helper()
			before := w.upstream("A")
			w.stops()
			bubble.Sleep(3 * time.Hour)
			w.starts()
			w.next = w.now()
			w.passes(3 * time.Second)
			u := w.upstream("A")
			if u.Share != share || u.Health != api.Recovering || u.FailbackID != before.FailbackID || u.Revision != before.Revision {
				t.Fatalf("%+v", u)
			}
			if was, is := before.Evidence.ServedSeconds, u.Evidence.ServedSeconds; is > was+10 {
				t.Errorf("at %d%%: served %.0f s, and %.0f s after three hours of downtime", share, was, is)
			}
		}
		down(25)
		for w.upstream("A").Share < 100 {
			w.stepsUp("A", 20*time.Minute)
		}
		w.passes(time.Minute)
		down(100)
		w.until("A is healthy", 12*time.Minute, is("A", api.Healthy))
	})
}
