package ui

import (
	"strconv"
	"testing"

	"failback/sources"
)

// A gateway that says something else of its own stores with each answer has the
// same stores: what is known of them stays, they are told, and a log that is
// followed is followed on.
func TestWhatTheStoresAreSaidToBe(t *testing.T) {
	m, s := testModel(100, 30), incidentState()
	give(m, s, nil, nil)
	k := kept{&fakeNumbers{overview: sources.Overview{Ratio: read(0.3)}}, &fakeLines{}}
	keep(m, k)
	m.logs.tail = &logTail{cancel: func() {}}
	epoch := m.ask.epoch
	for lost := range 3 {
		s.Sources.Prometheus.Error = ""
		s.Sources.Loki.Error = strconv.Itoa(lost) + " lines were dropped"
		if lost == 1 {
			s.Sources.Prometheus.Error = "the disk is full"
		}
		give(m, s, nil, nil)
		if m.ask.epoch != epoch || m.live.metrics.Value() == nil || m.logs.tail == nil {
			t.Fatalf("after %d: epoch %d, then %d; numbers known %t, followed %t", lost, epoch, m.ask.epoch, m.live.metrics.Value() != nil, m.logs.tail != nil)
		}
		if k.told != s.Sources.Prometheus || k.lines.told != s.Sources.Loki {
			t.Errorf("they were told %+v and %+v", k.told, k.lines.told)
		}
	}
	s.Sources.Loki.URL = "http://127.0.0.1:1"
	give(m, s, nil, nil)
	if m.ask.epoch != epoch+1 || m.live.metrics.Value() != nil || m.logs.tail != nil {
		t.Error("another Loki is taken for the same")
	}
}
