package health

import (
	"strings"
	"testing"
	"time"

	"failback/gateway/decision"
)

func signal(t *testing.T, l []Signal, name string) Signal {
	t.Helper()
	for _, s := range l {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no signal %s in %v", name, l)
	return Signal{}
}

func TestSignalsAreAlwaysAllThere(t *testing.T) {
	l := Signals(time.Now(), Measures{}, settings)
	if len(l) != 6 {
		t.Fatal(l)
	}
	for _, s := range l {
		if s.Colour != Unknown || s.Value == "" || s.BlindSpot == "" || s.Group == "" {
			t.Errorf("%+v", s)
		}
	}
	if !Blind(l) {
		t.Error("something is known of nothing")
	}
}

func TestTrafficSignals(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		name          string
		ok, failed    int
		age           time.Duration
		rate, success Colour
		value         string
	}{
		{"nothing", 0, 0, 0, Unknown, Unknown, "too little traffic: 0 in 30s, 20 needed"},
		{"too little, all failed", 0, 19, 0, Unknown, Unknown, "too little traffic: 19 in 30s, 20 needed"},
		{"too little, none failed", 19, 0, 0, Unknown, Unknown, "too little traffic: 19 in 30s, 20 needed"},
		{"enough", 20, 0, 0, Green, Green, "0/20 failed"},
		{"below the rate", 801, 199, 0, Green, Green, "199/1000 failed"},
		{"at the rate", 800, 200, 0, Red, Green, "200/1000 failed"},
		{"no success", 0, 20, 0, Red, Red, "20/20 failed"},
		{"red of just now", 0, 20, RedMaxAge, Red, Red, "20/20 failed"},
		{"red of too long ago", 0, 20, RedMaxAge + 1, Unknown, Unknown, "20/20 failed, too long ago"},
		{"green of long ago", 20, 0, time.Hour, Green, Green, "0/20 failed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := Signals(now, Measures{OK: c.ok, Failed: c.failed, LastAttempt: now.Add(-c.age)}, settings)
			if s := signal(t, l, SignalErrorRate); s.Colour != c.rate || s.Value != c.value || s.Group != Traffic {
				t.Errorf("%+v", s)
			}
			if s := signal(t, l, SignalSuccess); s.Colour != c.success {
				t.Errorf("%+v", s)
			}
		})
	}
}

func TestBreakerSignal(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		name  string
		l     []Breaker
		want  Colour
		value string
	}{
		{"none", nil, Unknown, "no traffic"},
		{"closed, no traffic", []Breaker{{Capability: "text", State: "closed"}}, Unknown, "no traffic"},
		{"closed", []Breaker{{Capability: "text", State: "closed", Samples: 1}}, Green, "text closed"},
		{"ramping", []Breaker{{Capability: "text", State: "ramping"}}, Green, "text ramping"},
		{"open", []Breaker{{Capability: "text", State: "closed", Samples: 9}, {Capability: "tools", State: "open", Reason: "consecutive"}}, Red, "tools open (consecutive)"},
		{"half open, probing", []Breaker{{Capability: "text", State: "half_open", Reason: "slow"}}, Red, "text half_open (slow)"},
		{"nobody probes it", []Breaker{{Capability: "text", State: "half_open", Waiting: true}}, Unknown, "text waits for a probe"},
		{"nobody probes one", []Breaker{{Capability: "text", State: "open", Waiting: true}, {Capability: "stream", State: "closed", Samples: 3}}, Green, "stream closed, text waits for a probe"},
		{"forced open", []Breaker{{Capability: "text", State: "open", Forced: true}}, Unknown, "text forced open"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if s := signal(t, Signals(now, Measures{Breakers: c.l}, settings), SignalBreaker); s.Colour != c.want || s.Value != c.value {
				t.Errorf("%+v", s)
			}
		})
	}
}

func TestProbeSignal(t *testing.T) {
	now := time.Now()
	at := func(c decision.Class, age time.Duration) ProbeResult {
		return ProbeResult{Model: "m", Capability: decision.Text, Class: c, At: now.Add(-age)}
	}
	for _, c := range []struct {
		name  string
		l     []ProbeResult
		set   func(*Settings)
		want  Colour
		mild  bool
		value string
	}{
		{"none", nil, nil, Unknown, false, "nothing is probed"},
		{"not yet", []ProbeResult{{Model: "m"}}, nil, Unknown, false, "not probed yet"},
		{"passed", []ProbeResult{at(decision.OK, 5*time.Minute)}, nil, Green, false, "1 of 1 passed"},
		{"passed too long ago", []ProbeResult{at(decision.OK, 5*time.Minute+1)}, nil, Unknown, false, "the last result is too old"},
		{"failed", []ProbeResult{at(decision.Connect, RedMaxAge), at(decision.OK, 0)}, nil, Red, false, "1 of 2 failed: text connect"},
		{"failed too long ago", []ProbeResult{at(decision.Connect, RedMaxAge+1)}, nil, Unknown, false, "the last result is too old"},
		{"one failed too long ago, one passes", []ProbeResult{at(decision.Connect, RedMaxAge+1), at(decision.OK, 0)}, nil, Green, false, "1 of 2 passed"},
		{"out of its cost", []ProbeResult{{Model: "m", Class: decision.Connect, At: now, Held: true}, {Model: "n", Class: decision.OK, At: now, Held: true}}, nil, Unknown, false, "the daily cost of probes is used up"},
		{"credential", []ProbeResult{at(decision.Credential, 0)}, nil, Red, true, "1 of 1 failed: text credential"},
		{"credential, switch", []ProbeResult{at(decision.Credential, 0)}, func(s *Settings) { s.CredentialSwitch = true }, Red, false, "1 of 1 failed: text credential"},
		{"quota", []ProbeResult{at(decision.QuotaExhausted, 0)}, nil, Red, true, "1 of 1 failed: text quota_exhausted"},
		{"quota, switch", []ProbeResult{at(decision.QuotaExhausted, 0)}, func(s *Settings) { s.QuotaSwitch = true }, Red, false, "1 of 1 failed: text quota_exhausted"},
		{"more and credential", []ProbeResult{at(decision.Reset, 0), at(decision.Credential, 0)}, nil, Red, false, "2 of 2 failed: text credential, text reset"},
		{"credential and more", []ProbeResult{at(decision.Credential, 0), at(decision.Reset, 0)}, nil, Red, false, "2 of 2 failed: text credential, text reset"},
	} {
		t.Run(c.name, func(t *testing.T) {
			set := settings
			if c.set != nil {
				c.set(&set)
			}
			s := signal(t, Signals(now, Measures{Probes: c.l}, set), SignalProbe)
			if s.Colour != c.want || s.SuspectOnly != c.mild || s.Value != c.value || s.Group != Probes {
				t.Errorf("%+v", s)
			}
		})
	}
}

func TestExpirySignals(t *testing.T) {
	now := time.Now()
	const margin = 168 * time.Hour
	for _, c := range []struct {
		name  string
		m     Measures
		set   func(*Settings)
		which string
		want  Colour
		mild  bool
		value string
	}{
		{"key far off", Measures{Credential: Credential{Expires: now.Add(margin + 1)}}, nil, SignalCredential, Green, false, "expires in 7 days"},
		{"key near", Measures{Credential: Credential{Expires: now.Add(margin)}}, nil, SignalCredential, Red, true, "expires in 7 days"},
		{"key near, switch", Measures{Credential: Credential{Expires: now.Add(1)}}, func(s *Settings) { s.CredentialSwitch = true }, SignalCredential, Red, true, "expires in 0s"},
		{"key expired", Measures{Credential: Credential{Expires: now}}, nil, SignalCredential, Red, true, "expired 0s ago"},
		{"key expired, switch", Measures{Credential: Credential{Expires: now.Add(-time.Hour)}}, func(s *Settings) { s.CredentialSwitch = true }, SignalCredential, Red, false, "expired 1h0m ago"},
		{"key cools", Measures{Credential: Credential{Cooling: decision.Credential, Until: now.Add(5 * time.Minute), Expires: now.Add(9 * margin)}}, nil, SignalCredential, Red, true, "credential, cools for 5m"},
		{"key cools, switch", Measures{Credential: Credential{Cooling: decision.Credential, Until: now.Add(90 * time.Second)}}, func(s *Settings) { s.CredentialSwitch = true }, SignalCredential, Red, false, "credential, cools for 1m30s"},
		{"quota, switch", Measures{Credential: Credential{Cooling: decision.QuotaExhausted, Until: now}}, func(s *Settings) { s.QuotaSwitch = true }, SignalCredential, Red, false, "quota_exhausted, cools for 0s"},
		{"certificate far off", Measures{Certificate: Certificate{NotAfter: now.Add(margin + 1), Seen: now}}, nil, SignalCertificate, Green, false, "expires in 7 days"},
		{"certificate near", Measures{Certificate: Certificate{NotAfter: now.Add(margin), Seen: now.Add(-24 * time.Hour)}}, nil, SignalCertificate, Red, true, "expires in 7 days"},
		{"certificate expired", Measures{Certificate: Certificate{NotAfter: now, Seen: now}}, nil, SignalCertificate, Red, false, "expired 0s ago"},
		{"certificate not seen lately", Measures{Certificate: Certificate{NotAfter: now.Add(margin), Seen: now.Add(-24*time.Hour - 1)}}, nil, SignalCertificate, Unknown, false, "not seen for 24h0m"},
		{"no margin", Measures{Certificate: Certificate{NotAfter: now.Add(1), Seen: now}}, func(s *Settings) { s.ExpiryMargin = 0 }, SignalCertificate, Green, false, "expires in 0s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			set := settings
			if c.set != nil {
				c.set(&set)
			}
			s := signal(t, Signals(now, c.m, set), c.which)
			if s.Colour != c.want || s.SuspectOnly != c.mild || s.Value != c.value || s.Group != Expiry {
				t.Errorf("%+v", s)
			}
		})
	}
}

func TestHurry(t *testing.T) {
	near := signals(Green, Green, Red)
	near[2].SuspectOnly, near[2].Coming = true, true
	cooling := signals(Green, Green, Red)
	cooling[2].SuspectOnly = true
	both := signals(Red, Green, Red)
	both[2].SuspectOnly, both[2].Coming = true, true
	for _, c := range []struct {
		name  string
		state State
		l     []Signal
		want  bool
	}{
		{"healthy", Healthy, signals(Green, Green, Green), false},
		{"degraded", Degraded, signals(Unknown, Unknown, Unknown), true},
		{"recovering", Recovering, signals(Red, Red, Red), false},
		{"suspect by traffic", Suspect, signals(Red, Green, Green), true},
		{"suspect by a date that comes nearer", Suspect, near, false},
		{"suspect by a key that cools: a probe clears it", Suspect, cooling, true},
		{"suspect by a date and by traffic", Suspect, both, true},
		{"suspect, clear by now", Suspect, signals(Green, Green, Green), true},
	} {
		if got := Hurry(c.state, c.l); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", time.Second - 1: "0s", 59 * time.Second: "59s", time.Minute: "1m", 90 * time.Second: "1m30s",
		time.Hour: "1h0m", 47*time.Hour + 59*time.Minute: "47h59m", 48 * time.Hour: "2 days", 168 * time.Hour: "7 days",
	} {
		if got := span(d); got != want {
			t.Errorf("%d: %s", d, got)
		}
	}
	if strings.Contains(span(time.Duration(1<<62)), "-") {
		t.Error("overflow")
	}
}
