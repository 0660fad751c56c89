package gateway

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"failback/gateway/operator/api"
	"failback/gateway/store"
)

// told is what a list says of the others: "b+ c-" where c does not answer.
func told(p *peers, now time.Time) string {
	all, _ := p.list(now)
	var l []string
	for _, g := range all {
		switch {
		case g.You:
		case g.Answers:
			l = append(l, g.Instance+"+")
		default:
			l = append(l, g.Instance+"-")
		}
	}
	return strings.Join(l, " ")
}

// listener is a list of a gateway called a, without a store.
func listener() *peers {
	return &peers{key: "a/0", self: peerRecord{Instance: "a", Boot: "of-a"}, every: peerEvery, alarm: func(string) {}, known: map[string]*peer{}}
}

func says(key, boot string, clock, written time.Time) store.Change[peerRecord] {
	instance, _, _ := strings.Cut(key, "/")
	return store.Change[peerRecord]{Entry: store.Entry[peerRecord]{Key: key, Written: written, Value: peerRecord{
		Instance: instance, Boot: boot, Now: clock, Since: clock.Add(-time.Hour),
		Sessions: []api.Session{{Name: "ana", Since: clock.Add(-time.Minute), LastSeen: clock.Add(-5 * time.Second), Active: clock.Add(-30 * time.Second)}},
	}}}
}

// Silence is measured by this gateway's own clock, whatever the others' clocks
// say, and only while it hears the store.
func TestSilenceOfAGateway(t *testing.T) {
	began := time.Date(2026, 11, 30, 4, 0, 0, 0, time.UTC)
	for _, wrong := range []time.Duration{0, -3 * time.Hour, 3 * time.Hour} {
		p := listener()
		store := began.Add(-wrong) // a clock of its own
		at := func(s int) time.Time { return began.Add(time.Duration(s) * time.Second) }
		own := func(s int) {
			p.heard(says("a/0", "of-a", at(s), store.Add(time.Duration(s)*time.Second)), false, at(s))
		}
		other := func(s int) {
			p.heard(says("b/1", "of-b", at(s).Add(wrong), store.Add(time.Duration(s)*time.Second)), false, at(s))
		}
		own(0)
		for s := 1; s <= 61; s += 10 {
			other(s)
			own(s + 9)
		}
		if got := told(p, at(75)); got != "b+" {
			t.Errorf("clock off by %v: %q", wrong, got)
		}
		_, consoles := p.list(at(75))
		if len(consoles) != 1 || consoles[0].Instance != "b" || !consoles[0].LastSeen.Equal(at(56)) || !consoles[0].Active.Equal(at(31)) || !consoles[0].Since.Equal(at(1)) {
			t.Errorf("clock off by %v: its consoles are %+v", wrong, consoles)
		}
		// It falls silent; not before 30 s does anybody say so.
		own(80)
		own(90)
		if got := told(p, at(90)); got != "b+" {
			t.Errorf("after 29 s of silence: %q", got)
		}
		own(100)
		if got := told(p, at(100)); got != "b-" {
			t.Errorf("after 39 s of silence: %q", got)
		}
		if all, consoles := p.list(at(100)); len(consoles) != 0 || !all[1].LastSeen.Equal(at(61)) {
			t.Errorf("of one that is silent: %+v, consoles %v", all, consoles)
		}
		other(101)
		if got := told(p, at(101)); got != "b+" {
			t.Errorf("back again: %q", got)
		}
		// The store goes away: nobody is known to be silent, and ages grow.
		if all, _ := p.list(at(1001)); !all[1].Answers || !all[1].LastSeen.Equal(at(101)) {
			t.Errorf("without the store: %+v", all)
		}
		own(1001)
		if got := told(p, at(1001)); got != "b+" {
			t.Errorf("the store is back, the other not yet: %q", got)
		}
		own(1011)
		own(1021)
		if got := told(p, at(1021)); got != "b-" {
			t.Errorf("the other did not come back: %q", got)
		}
	}
}

// What was in the store before this gateway is as old as the store says.
func TestGatewaysFoundInTheStore(t *testing.T) {
	now := time.Date(2026, 11, 30, 4, 0, 0, 0, time.UTC)
	p := listener()
	var alarms []string
	p.alarm = func(s string) { alarms = append(alarms, s) }
	stored := now.Add(17 * time.Hour) // the store's clock
	p.heard(says("a/0", "before", now, stored.Add(-time.Minute)), true, now)
	p.heard(says("b/1", "of-b", now.Add(-3*time.Hour), stored.Add(-4*time.Second)), true, now)
	p.heard(says("c/1", "of-c", now.Add(-5*time.Minute), stored.Add(-5*time.Minute)), true, now)
	p.heard(says("a/0", "of-a", now, stored), false, now)
	if got := told(p, now); got != "b+ c-" {
		t.Errorf("%q", got)
	}
	all, consoles := p.list(now)
	if !all[1].LastSeen.Equal(now.Add(-4*time.Second)) || !all[2].LastSeen.Equal(now.Add(-5*time.Minute)) {
		t.Errorf("%+v", all)
	}
	if len(consoles) != 1 || !consoles[0].LastSeen.Equal(now.Add(-9*time.Second)) {
		t.Errorf("%+v", consoles)
	}
	if len(alarms) != 0 {
		t.Errorf("its own last run is called another gateway: %q", alarms)
	}
	p.heard(says("a/0", "a third one", now, stored), false, now)
	if len(alarms) != 1 || !strings.Contains(alarms[0], `"a"`) || !strings.Contains(alarms[0], "--instance") {
		t.Errorf("two of one name: %q", alarms)
	}
	p.heard(store.Change[peerRecord]{Entry: store.Entry[peerRecord]{Key: "c/1"}, Deleted: true}, false, now)
	if got := told(p, now); got != "b+" {
		t.Errorf("without c: %q", got)
	}
}

// One that went without a word counts as silent for a day; one of its name that
// answers, here or elsewhere, is the same one.
func TestASilentGatewayIsNotForgotten(t *testing.T) {
	now := time.Date(2026, 11, 30, 4, 0, 0, 0, time.UTC)
	p := listener()
	p.heard(says("a/0", "of-a", now, now), false, now)
	p.heard(says("b/1", "of-b", now, now), false, now)
	p.heard(says("c/1", "of-c", now, now), false, now)
	for range 3 {
		p.heard(says("a/0", "of-a", now, now), false, now)
	}
	later := now.Add(23 * time.Hour)
	p.heard(says("b/1", "of-b", later, later), false, later)
	if got := told(p, later); got != "b+ c-" {
		t.Errorf("after 23 hours of silence: %q", got)
	}
	if all, _ := p.list(later); !all[2].LastSeen.Equal(now) {
		t.Errorf("it was last heard at %v", all[2].LastSeen)
	}
	p.heard(says("c/2", "of another host", later, later), false, later)
	if got := told(p, later); got != "b+ c+" {
		t.Errorf("it started anew elsewhere: %q", got)
	}
	p.heard(store.Change[peerRecord]{Entry: store.Entry[peerRecord]{Key: "c/2"}, Deleted: true}, false, later)
	if got := told(p, later); got != "b+ c-" {
		t.Errorf("that one took leave, the other never did: %q", got)
	}

	// How long the store keeps its record.
	server := onNATS(t, t.TempDir(), 0)
	s, err := store.Open(t.Context(), store.Options{URL: server.ClientURL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, done := context.WithTimeout(context.Background(), 10*time.Second)
		defer done()
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	if _, err := newPeers(s, peerEvery, peerRecord{Instance: "a"}, "host", "/data"); err != nil {
		t.Fatal(err)
	}
	streams, err := server.JszAccount(&natsserver.JSzOptions{Account: "$G", Config: true, Streams: true})
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, d := range streams.Streams {
		if strings.HasSuffix(d.Name, "_gateways") {
			found = true
			if d.Config.MaxAge < 24*time.Hour {
				t.Errorf("the store forgets a silent gateway after %v", d.Config.MaxAge)
			}
		}
	}
	if !found {
		t.Error("the store keeps no gateways")
	}
}

// onNATS is a NATS server with JetStream on loopback; port 0: any.
func onNATS(t *testing.T, dir string, port int) *natsserver.Server {
	t.Helper()
	if port == 0 {
		port = natsserver.RANDOM_PORT
	}
	s, err := natsserver.NewServer(&natsserver.Options{Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(20 * time.Second) {
		t.Fatal("the NATS server takes no connections")
	}
	return s
}

// member is a gateway's list on a store that is shared.
type member struct {
	*peers
	cancel context.CancelFunc
	ended  sync.WaitGroup
}

// leave ends it as a gateway that stops; after vanish nobody is told.
func (m *member) leave() { m.cancel(); m.ended.Wait() }

func join(t *testing.T, url, name string, every time.Duration) (*member, *store.Store) {
	t.Helper()
	s, err := store.Open(t.Context(), store.Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	p, err := newPeers(s, every, peerRecord{Instance: name, Version: "v1", Since: time.Now()}, "host", "/data/"+name)
	if err != nil {
		t.Fatal(err)
	}
	p.sessions = func() []api.Session {
		return []api.Session{{Name: "console-of-" + name, Since: time.Now(), LastSeen: time.Now()}}
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &member{peers: p, cancel: cancel}
	m.ended.Go(func() { _ = p.run(ctx) })
	m.ended.Go(func() { _ = p.follow(ctx) })
	t.Cleanup(func() {
		m.leave()
		ctx, done := context.WithTimeout(context.Background(), 10*time.Second)
		defer done()
		_ = s.Close(ctx) // it may be closed already
	})
	return m, s
}

// sees waits until m tells want of the others.
func (m *member) sees(t *testing.T, want string) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for told(m.peers, time.Now()) != want {
		select {
		case <-deadline:
			t.Fatalf("it tells of %q, want %q", told(m.peers, time.Now()), want)
		case <-tick.C:
		}
	}
}

// Gateways of one store know each other and each other's consoles; one that
// vanishes is silent and then forgotten, one that stops takes leave; without the
// store what is known stays, and nothing waits.
func TestGatewaysOfAStore(t *testing.T) {
	const every = 50 * time.Millisecond // 3 s until one is forgotten
	dir := t.TempDir()
	server := onNATS(t, dir, 0)
	url := server.ClientURL()
	a, _ := join(t, url, "a", every)
	b, _ := join(t, url, "b", every)
	c, cStore := join(t, url, "c", every)
	a.sees(t, "b+ c+")
	b.sees(t, "a+ c+")
	_, consoles := a.list(time.Now())
	var names []string
	for _, s := range consoles {
		names = append(names, s.Name+"@"+s.Instance)
	}
	slices.Sort(names)
	if got := fmt.Sprint(names); got != "[console-of-b@b console-of-c@c]" {
		t.Errorf("consoles %s", got)
	}

	// c is cut off without a word: a closed store writes nothing any more.
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := cStore.Close(ctx); err != nil {
		t.Fatal(err)
	}
	a.sees(t, "b+ c-")
	again, _ := join(t, url, "c", every) // in the same place
	a.sees(t, "b+ c+")
	again.leave()
	a.sees(t, "b+")
	c.leave()

	var port int
	if _, err := fmt.Sscanf(url[strings.LastIndexByte(url, ':')+1:], "%d", &port); err != nil {
		t.Fatal(err)
	}
	server.Shutdown()
	server.WaitForShutdown()
	before, _ := a.list(time.Now())
	pause := time.NewTimer(10 * every)
	<-pause.C
	asked := time.Now()
	after, consoles := a.list(asked)
	if len(after) != 2 || !after[1].Answers || len(consoles) != 1 || after[1].LastSeen.After(before[1].LastSeen) {
		t.Errorf("without the store: %+v, consoles %+v", after, consoles)
	}
	if asked.Sub(after[1].LastSeen) < 8*every {
		t.Errorf("its age is %v", asked.Sub(after[1].LastSeen))
	}
	onNATS(t, dir, port)
	heard := after[1].LastSeen
	deadline := time.After(30 * time.Second)
	for !after[1].LastSeen.After(heard) {
		select {
		case <-deadline:
			t.Fatal("after the store came back nobody is heard")
		case <-time.After(10 * time.Millisecond):
		}
		after, _ = a.list(time.Now())
	}
}
