package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"failback/gateway/operator/api"
)

// While every upstream is out of reach switching is pointless: requests end at
// once, nobody is degraded for it, and the first answer ends it.
func TestASharedFault(t *testing.T) {
	t.Parallel()
	a, b := newPatient(t), newPatient(t)
	told := newReceiver(t)
	w := startWard(t, admit(t, a.url, b.url, "notify: {webhook: "+told.url+"}\n"))
	traffic := newLoad(t, w.url)
	until(t, "there is traffic", func() bool { return traffic.sent.Load() > 60 })
	traffic.none(t, "before the fault")
	a.refuse()
	b.refuse()
	until(t, "the fault is found", func() bool { return w.state(t).SharedFault != nil })
	f := w.status(t).SharedFault
	if f == nil || f.Reason != "path" || len(f.Upstreams) != 2 || f.NextProbeAt.IsZero() || !strings.Contains(f.Detail, "cannot be reached") {
		t.Errorf("status says of the fault %+v", f)
	}

	endAtOnce(t, w)
	attempts := func() float64 { return sum(w.scrape(t), "ai_model_attempts_total") }
	before, from := attempts(), time.Now()
	until(t, "suspicion outlasts suspect_window twice", func() bool {
		u := w.upstream(t, "a")
		return u.Health == api.Suspect && time.Since(u.HealthSince) > 7*time.Second && strings.Contains(u.HealthReason, "shared")
	})
	// One a second goes on, of 40 requests.
	if n, most := attempts()-before, time.Since(from).Seconds()+2; n > most {
		t.Errorf("%g attempts in %.1f s of a shared fault", n, most-2)
	}
	for _, u := range w.status(t).Upstreams {
		if u.Health != api.Suspect || u.Share != 100 {
			t.Errorf("%s is %s at %d%% for a shared fault: %s", u.Name, u.Health, u.Share, u.HealthReason)
		}
	}
	told.gets(t, "shared_fault")

	traffic.end()
	a.listen(t)
	calm := newLoad(t, w.url)
	until(t, "the first answer ends it", func() bool { return w.state(t).SharedFault == nil })
	until(t, "a takes requests again", func() bool { clients, _ := a.asked(); return clients > 5 })
	b.listen(t)
	until(t, "all is well", func() bool {
		for _, u := range w.state(t).Upstreams {
			if u.Health != api.Healthy {
				return false
			}
		}
		return true
	})
	calm.failed.Store(0) // of those that came before the first answer
	until(t, "more traffic", func() bool { n, _ := a.asked(); return n > 5 })
	calm.none(t, "after the fault")
	var course []string
	for _, e := range w.events(t, "shared_fault") {
		course = append(course, e.To)
	}
	if len(course) < 2 || course[0] != "begun" || course[len(course)-1] != "ended" {
		t.Errorf("the events of the fault: %q", course)
	}
	for _, e := range w.events(t, "health_transition") {
		if e.To == api.Degraded {
			t.Errorf("%s was degraded: %s", e.Provider, e.Detail)
		}
	}
	if told.has("degraded") {
		t.Errorf("told: %v", told.kinds())
	}
}

// endAtOnce checks that requests in a shared fault end quickly with the reason.
func endAtOnce(t *testing.T, w *ward) {
	t.Helper()
	client := &http.Client{Timeout: 20 * time.Second}
	defer client.CloseIdleConnections()
	shared, last := 0, ""
	for i := range 20 {
		began := time.Now()
		why := converse(client, w.url, fmt.Sprintf("f%d", i), i%2 == 0)
		if took := time.Since(began); why == "" || took > 3*time.Second {
			t.Errorf("a request in a shared fault took %s: %q", took, why)
		}
		last = why
		if strings.HasPrefix(why, "503 shared_fault ") {
			shared++
		}
	}
	if shared < 10 {
		t.Errorf("%d of 20 requests ended with 503 and shared_fault, the last with %s", shared, last)
	}
}

// Whether those who are needed have been told is part of the status.
func TestDeliveryIsPartOfTheStatus(t *testing.T) {
	t.Parallel()
	told := newReceiver(t)
	told.refuse.Store(true)
	w := startWard(t, admit(t, newPatient(t).url, newPatient(t).url, "notify: {webhook: "+told.url+"}\n"))
	if n := w.status(t).Notify; !n.Configured || n.Pending != 0 || n.LastError != "" || !n.LastOK.IsZero() {
		t.Errorf("before any message: %+v", n)
	}
	w.take(t, "0", "--reason", "maintenance")
	until(t, "delivery fails", func() bool { return w.state(t).Notify.LastError != "" })
	if n := w.status(t).Notify; n.Pending != 1 || n.Oldest.IsZero() || n.LastErrorAt.IsZero() || strings.Contains(n.LastError, "/hook") {
		t.Errorf("while it is not delivered: %+v", n)
	}
	if out, _, _ := cli(t, w.dir, "status"); strings.Contains(out, "/hook") {
		t.Error("status shows the webhook's path")
	}
	told.refuse.Store(false)
	told.gets(t, "degraded")
	until(t, "it is delivered", func() bool { return w.state(t).Notify.Pending == 0 })
	if n := w.status(t).Notify; n.LastOK.IsZero() || n.LastError != "" || n.Lost != 0 {
		t.Errorf("once it is delivered: %+v", n)
	}
}
