package gateway

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
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
	if _, err := newPeers(s, peerEvery, peerRecord{Instance: "a"}, place{ID: "1"}); err != nil {
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

// Two gateways that ran at once under one name are two: one that falls silent is
// missed, however the other is started again, until one takes its place.
func TestGatewaysOfOneName(t *testing.T) {
	began := time.Date(2026, 11, 30, 4, 0, 0, 0, time.UTC)
	at := func(s int) time.Time { return began.Add(time.Duration(s) * time.Second) }
	said := func(key, boot string, s int, placed time.Time, ahead time.Duration) store.Change[peerRecord] {
		c := says(key, boot, at(s).Add(ahead), at(s))
		c.Value.Placed, c.Value.Since = placed.Add(ahead), placed.Add(ahead)
		return c
	}
	for _, ahead := range []time.Duration{0, -3 * time.Hour, 3 * time.Hour} {
		p := listener()
		p.self.Placed = at(-100)
		var alarms []string
		p.alarm = func(s string) { alarms = append(alarms, s) }
		own := func(s int) { p.heard(says("a/0", "of-a", at(s), at(s)), false, at(s)) }
		other := func(key, boot string, s, placed int) {
			p.heard(said(key, boot, s, at(placed), ahead), false, at(s))
		}
		p.heard(said("a/1", "1", 0, at(-200), ahead), true, at(0))
		own(0)
		if len(alarms) != 0 {
			t.Errorf("clock ahead by %v: what was found is said to run: %q", ahead, alarms)
		}
		for s := 10; s <= 50; s += 10 {
			other("a/1", "1", s, -200)
			own(s)
		}
		if got := told(p, at(50)); got != "a (2)+" {
			t.Errorf("clock ahead by %v: both run: %q", ahead, got)
		}
		if len(alarms) != 1 || !strings.Contains(alarms[0], `"a"`) || !strings.Contains(alarms[0], "--instance") {
			t.Errorf("clock ahead by %v: that two run under one name: %q", ahead, alarms)
		}
		if _, consoles := p.list(at(50)); len(consoles) != 1 || consoles[0].Instance != "a (2)" {
			t.Errorf("clock ahead by %v: consoles of the other: %+v", ahead, consoles)
		}
		for s := 60; s <= 100; s += 10 {
			own(s)
		}
		if got := told(p, at(100)); got != "a (2)-" {
			t.Errorf("clock ahead by %v: one was killed: %q", ahead, got)
		}
		// This one is started again where it was.
		p.self.Since = at(95)
		if got := told(p, at(100)); got != "a (2)-" {
			t.Errorf("clock ahead by %v: the other was started again: %q", ahead, got)
		}
		if _, more := p.others(at(100)); !more {
			t.Errorf("clock ahead by %v: nobody is missed", ahead)
		}
		other("a/1", "2", 110, -200)
		if got := told(p, at(110)); got != "a (2)+" {
			t.Errorf("clock ahead by %v: started again in its place: %q", ahead, got)
		}
		for s := 110; s <= 150; s += 10 {
			own(s)
		}
		other("a/2", "3", 155, 152)
		if got := told(p, at(155)); got != "a (2)+" {
			t.Errorf("clock ahead by %v: started anew elsewhere: %q", ahead, got)
		}
	}
}

// A data directory names its gateway for as long as it is there.
func TestPlaceOfAGateway(t *testing.T) {
	dir := t.TempDir()
	first, err := placeOf(dir)
	if err != nil || first.ID == "" || first.Since.IsZero() {
		t.Fatalf("%+v, %v", first, err)
	}
	again, err := placeOf(dir)
	if err != nil || again.ID != first.ID || !again.Since.Equal(first.Since) {
		t.Errorf("started again: %+v, %v, before %+v", again, err, first)
	}
	if other, err := placeOf(t.TempDir()); err != nil || other.ID == first.ID {
		t.Errorf("another directory: %+v, %v", other, err)
	}
	path := filepath.Join(dir, placeFile)
	if err := os.WriteFile(path, []byte(`{"id":`), 0o600); err != nil {
		t.Fatal(err)
	}
	anew, err := placeOf(dir)
	if err != nil || anew.ID == "" || anew.ID == first.ID {
		t.Errorf("half a file: %+v, %v", anew, err)
	}
	if again, err := placeOf(dir); err != nil || again.ID != anew.ID {
		t.Errorf("half a file, started again: %+v, %v", again, err)
	}
	if lost, err := placeOf(filepath.Join(dir, "nowhere")); err == nil || !strings.Contains(err.Error(), "nowhere") || lost.ID == "" {
		t.Errorf("where nothing can be written: %+v, %v", lost, err)
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
	return joinAt(t, url, name, "of-"+name, every)
}

func joinAt(t *testing.T, url, name, id string, every time.Duration) (*member, *store.Store) {
	t.Helper()
	s, err := store.Open(t.Context(), store.Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	p, err := newPeers(s, every, peerRecord{Instance: name, Version: "v1", Since: time.Now()}, place{ID: id, Since: time.Now()})
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

	// So is one that has the name of another.
	namesake, namesakeStore := joinAt(t, url, "a", "x", every)
	a.sees(t, "a (2)+ b+")
	b.sees(t, "a+ a (2)+")
	if err := namesakeStore.Close(ctx); err != nil {
		t.Fatal(err)
	}
	a.sees(t, "a (2)- b+")
	b.sees(t, "a+ a (2)-")
	again, _ = joinAt(t, url, "a", "x", every)
	a.sees(t, "a (2)+ b+")
	again.leave()
	a.sees(t, "b+")
	namesake.leave()

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
