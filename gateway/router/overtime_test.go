package router

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"failback/gateway/breaker"
	"failback/gateway/decision"
	"failback/internal/bubble"
)

// What the mechanisms come to together over minutes and hours: requests come
// at a steady rate whatever becomes of the others, half of them for streams,
// and upstreams misbehave by the clock.

const (
	perSecond = 60
	// usualWait is the mean time to the first output of a stream and to half of
	// a whole answer; each takes between half and one and a half times that.
	usualWait = 200 * time.Millisecond
)

// season is a world over a long time.
type season struct {
	*world
	began time.Time
	hosts map[string]*host

	mu sync.Mutex // guards everything that follows
	// firsts and extra are the attempts by the second in which their requests
	// ended: the first ones, and those after.
	firsts, extra []int
	failures      map[string]int // of clients, by what happened
	served        map[string]int // by who answered
	slowest       time.Duration
	running, most int // requests under way, now and at most
}

// host is an upstream that costs little: bytes by the clock.
type host struct {
	s *season

	mu     sync.Mutex // guards everything that follows
	rand   *rand.Rand
	does   func(at time.Duration, stream bool) deed
	asks   []asking
	failed int // of them, those that it did not answer well
}

// asking is one request as a host got it.
type asking struct {
	at     time.Duration
	stream bool
}

// deed is how one request is answered.
type deed struct {
	status  int           // 0: 200
	headers string        // added to an error
	factor  float64       // of the usual time; 0: 1
	wait    time.Duration // instead of the usual time
	silent  bool          // no answer, ever
}

func (h *host) serve(l net.Listener) (stop func()) {
	var running sync.WaitGroup
	var mu sync.Mutex
	conns := map[net.Conn]bool{}
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns[c] = true
			mu.Unlock()
			running.Go(func() {
				h.talk(c)
				_ = c.Close()
				mu.Lock()
				defer mu.Unlock()
				delete(conns, c)
			})
		}
	})
	return func() {
		_ = l.Close()
		mu.Lock()
		for c := range conns {
			_ = c.Close()
		}
		mu.Unlock()
		running.Wait()
	}
}

// talk answers the requests of one connection.
func (h *host) talk(c net.Conn) {
	in := bufio.NewReader(c)
	for {
		length := 0
		for {
			line, err := in.ReadSlice('\n')
			if err != nil {
				return
			}
			if n, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
				length, _ = strconv.Atoi(string(bytes.TrimSpace(n)))
			}
			if len(line) <= 2 {
				break
			}
		}
		body := make([]byte, length)
		if _, err := io.ReadFull(in, body); err != nil {
			return
		}
		if !h.answer(c, bytes.Contains(body, []byte(`"stream":true`))) {
			return
		}
	}
}

const (
	hostChunk = "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"},\"finish_reason\":null}]}\n\n"
	hostEnd   = "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"
	hostWhole = `{"id":"c","object":"chat.completion","model":"x","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}`
	hostError = `{"error":{"message":"no","type":"server_error","param":null,"code":null}}`
)

func (h *host) answer(c net.Conn, stream bool) bool {
	at := time.Since(h.s.began)
	h.mu.Lock()
	d := h.does(at, stream)
	spread := 0.5 + h.rand.Float64()
	h.asks = append(h.asks, asking{at, stream})
	if d.status != 0 || d.silent {
		h.failed++
	}
	h.mu.Unlock()
	if d.silent {
		// The connection is not read either, so that its end is not noticed;
		// the gateway has closed it long before.
		bubble.Sleep(10 * time.Minute)
		return false
	}
	if d.factor == 0 {
		d.factor = 1
	}
	if d.wait == 0 {
		d.wait = time.Duration(spread * d.factor * float64(usualWait))
	}
	if d.status != 0 {
		return h.after(d.wait, c, fmt.Sprintf("HTTP/1.1 %d Error\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n%s", d.status, len(hostError), d.headers, hostError))
	}
	if !stream {
		return h.after(2*d.wait, c, fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(hostWhole), hostWhole))
	}
	return h.after(d.wait, c, fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n%s", len(hostChunk)+len(hostEnd), hostChunk)) &&
		h.after(d.wait, c, hostEnd)
}

func (h *host) after(d time.Duration, c net.Conn, s string) bool {
	bubble.Sleep(d)
	_, err := io.WriteString(c, s)
	return err == nil
}

// becomes sets what it does with a request that comes at, since the start.
func (h *host) becomes(does func(at time.Duration, stream bool) deed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.does = does
}

// during is how many requests it got from then to then.
func (h *host) during(from, to time.Duration, streams, wholes bool) (n int) {
	i, _ := slices.BinarySearchFunc(h.asks, from, func(a asking, t time.Duration) int { return cmp.Compare(a.at, t) })
	for _, a := range h.asks[i:] {
		if a.at >= to {
			break
		}
		if a.stream && streams || !a.stream && wholes {
			n++
		}
	}
	return n
}

// chance is a failure with probability p. It is for does, which holds mu.
func (h *host) chance(p float64, status int) deed {
	if h.rand.Float64() < p {
		return deed{status: status}
	}
	return deed{}
}

// inSeason runs f in a world of such hosts, all well. It is skipped by -short.
func inSeason(t *testing.T, cs []candidate, f func(*season)) {
	t.Helper()
	if testing.Short() {
		t.Skip("requires a run without -short: a season takes seconds")
	}
	s := &season{hosts: map[string]*host{}, failures: map[string]int{}, served: map[string]int{}}
	serve := func(_ *world, c candidate, l net.Listener) func() {
		h := &host{s: s, does: func(time.Duration, bool) deed { return deed{} }, rand: rand.New(rand.NewPCG(1, uint64(len(s.hosts))))}
		s.hosts[c.name] = h
		return h.serve(l)
	}
	inWorldOf(t, cs, serve, func(w *world) {
		s.world, s.began = w, time.Now()
		f(s)
	})
}

// passes has requests come for d, or a part of it where that takes too long.
func (s *season) passes(d time.Duration) {
	s.t.Helper()
	d /= seasonPart
	var running sync.WaitGroup
	n := int(d / time.Second * perSecond)
	tick := time.NewTicker(time.Second / perSecond)
	defer tick.Stop()
	for i := range n {
		running.Go(func() { s.one(i%2 == 0) })
		<-tick.C
	}
	running.Wait()
}

func (s *season) one(stream bool) {
	s.mu.Lock()
	s.running++
	s.most = max(s.most, s.running)
	s.mu.Unlock()
	r := s.send(request{stream: stream})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	second := int(time.Since(s.began) / time.Second)
	for len(s.firsts) <= second {
		s.firsts, s.extra = append(s.firsts, 0), append(s.extra, 0)
	}
	s.firsts[second]++
	s.extra[second] += max(len(r.Attempts)-1, 0)
	s.slowest = max(s.slowest, r.took)
	if r.Status == decision.Completed || r.Status == decision.DegradedCompleted {
		s.served[r.Selected]++
		return
	}
	s.failures[fmt.Sprintf("%s %s (%s)", r.Status, r.Reason, r.classes())]++
}

// sent is how many requests came.
func (s *season) sent() (n int) {
	for _, f := range s.firsts {
		n += f
	}
	return n
}

func (s *season) failed() (n int) {
	for _, f := range s.failures {
		n += f
	}
	return n
}

// overdrawn is how many attempts after the first there were in any 10 s beyond
// what the retry budget grants for the requests of that time, at most, and when.
func (s *season) overdrawn() (most float64, at int) {
	const window = 10
	for i := window; i <= len(s.firsts); i++ {
		firsts, extra := 0, 0
		for j := i - window; j < i; j++ {
			firsts += s.firsts[j]
			extra += s.extra[j]
		}
		if over := float64(extra) - (s.plan.BudgetBurst + s.plan.BudgetRatio*float64(firsts)); over > most {
			most, at = over, i-window
		}
	}
	return most, at
}

// transitions are those of the breakers, in order.
func (s *season) transitions() (es []decision.Event) {
	s.events.mu.Lock()
	defer s.events.mu.Unlock()
	for _, e := range s.events.events {
		if e.Kind == decision.KindBreakerTransition {
			es = append(es, e)
		}
	}
	return es
}

// openings are the times at which a bucket went from closed or ramping to open.
func (s *season) openings() map[string]int {
	n := map[string]int{}
	for _, e := range s.transitions() {
		if e.To == breaker.Open && (e.From == breaker.Closed || e.From == breaker.Ramping) {
			n[fmt.Sprintf("%s:%s %s", e.Provider, e.Capability, e.Reason)]++
		}
	}
	return n
}

// openingsOf counts those of one bucket.
func (s *season) openingsOf(bucket string) (n int) {
	for why, k := range s.openings() {
		if strings.HasPrefix(why, bucket+" ") {
			n += k
		}
	}
	return n
}

// tell prints the figures.
func (s *season) tell() {
	s.t.Helper()
	over, at := s.overdrawn()
	line := fmt.Sprintf("%d requests, %d failed (%.3f %%), most at once %d, slowest %s, served by %v, extra attempts %d, most beyond the budget in 10 s %.0f at %d s, openings %v",
		s.sent(), s.failed(), 100*float64(s.failed())/float64(max(s.sent(), 1)), s.most, s.slowest.Round(time.Millisecond), s.served, sum(s.extra), over, at, s.openings())
	for _, name := range slices.Sorted(maps.Keys(s.hosts)) {
		h := s.hosts[name]
		line += fmt.Sprintf(", %s saw %d and failed %d", name, len(h.asks), h.failed)
	}
	for _, why := range slices.Sorted(maps.Keys(s.failures)) {
		line += fmt.Sprintf("\n  %d x %s", s.failures[why], why)
	}
	s.t.Log(line)
}

func sum(l []int) (n int) {
	for _, v := range l {
		n += v
	}
	return n
}

// clientsAreFine checks that at most one in a thousand saw a failure.
func (s *season) clientsAreFine() {
	s.t.Helper()
	if 1000*s.failed() > s.sent() {
		s.t.Errorf("%d of %d clients saw a failure", s.failed(), s.sent())
	}
}

// isCalm checks that no bucket opened more often than that, that none came back
// but by a probe and a ramp, and that ramps are gentle.
func (s *season) isCalm(openings int) {
	s.t.Helper()
	for name := range s.hosts {
		for _, bucket := range []string{name + ":stream", name + ":text"} {
			if n := s.openingsOf(bucket); n > openings {
				s.t.Errorf("%s opened %d times", bucket, n)
			}
		}
	}
	for _, e := range s.transitions() {
		at := e.Time.Sub(s.began)
		switch {
		case e.To == breaker.Closed && e.From != breaker.Ramping:
			s.t.Errorf("%s:%s went from %s to %s at %s", e.Provider, e.Capability, e.From, e.To, at)
		case e.To == breaker.Ramping:
			// 1 and then 2 in flight, for at least half the usual time each.
			h := s.hosts[e.Provider]
			for i := range 2 {
				from := at + time.Duration(i)*time.Second
				if n := h.during(from, from+time.Second, true, e.Capability == decision.Text); n > 15*(i+1) {
					s.t.Errorf("%s:%s got %d requests in second %d of its ramp at %s", e.Provider, e.Capability, n, i+1, at)
				}
			}
		}
	}
}

// keepsTheBudget checks that attempts after the first came from the retry
// budget, or moved away from a bucket that had opened, which at most as many
// did as were in flight.
func (s *season) keepsTheBudget() {
	s.t.Helper()
	if over, at := s.overdrawn(); over > float64(s.most) {
		s.t.Errorf("%.0f attempts beyond the retry budget in the 10 s from second %d", over, at)
	}
}

// A primary that fails a part of its requests for half an hour, where the next
// candidate is nearly as good, and where it is a last resort, so that the retry
// budget has to bear it.
func TestHalfAnHourOfPartialFailure(t *testing.T) {
	for _, how := range []struct {
		percent int
		weight  float64 // of the next candidate
	}{{15, 10}, {25, 80}, {25, 10}, {40, 80}, {60, 10}} {
		t.Run(fmt.Sprintf("%d%%_weight%g", how.percent, how.weight), func(t *testing.T) {
			t.Parallel()
			inSeason(t, []candidate{{name: "a", weight: 100}, {name: "b", weight: how.weight}}, func(s *season) {
				a := s.hosts["a"]
				s.passes(time.Minute)
				a.becomes(func(time.Duration, bool) deed { return a.chance(float64(how.percent)/100, 500) })
				s.passes(30 * time.Minute)
				s.tell()
				s.clientsAreFine()
				// The cooldown doubles up to two minutes.
				s.isCalm(4 + 30/2)
				s.keepsTheBudget()
			})
		})
	}
}

// A primary that is down for 50 s and up for 50 s, for an hour.
func TestAnHourOfFlapping(t *testing.T) {
	for _, how := range []struct {
		name string
		down deed
		long time.Duration
	}{
		{"503", deed{status: 503, wait: 10 * time.Millisecond}, time.Hour},
		{"500", deed{status: 500}, 20 * time.Minute},
		{"silent", deed{silent: true}, 20 * time.Minute},
	} {
		t.Run(how.name, func(t *testing.T) {
			t.Parallel()
			inSeason(t, two(), func(s *season) {
				s.passes(time.Minute)
				start := time.Since(s.began)
				s.hosts["a"].becomes(func(at time.Duration, _ bool) deed {
					if (at-start)/(50*time.Second)%2 == 0 {
						return how.down
					}
					return deed{}
				})
				s.passes(how.long)
				s.tell()
				s.clientsAreFine()
				s.isCalm(4 + int(how.long/(2*time.Minute)))
				s.keepsTheBudget()
			})
		})
	}
}

// Everything takes three times as long, for everybody: nobody is to blame, and
// switching helps nobody.
func TestAGeneralSlowdown(t *testing.T) {
	for _, usual := range []float64{1, 5} {
		t.Run(time.Duration(usual*float64(usualWait)).String(), func(t *testing.T) {
			t.Parallel()
			inSeason(t, two(), func(s *season) {
				become := func(factor float64) {
					for _, h := range s.hosts {
						h.becomes(func(time.Duration, bool) deed { return deed{factor: factor} })
					}
				}
				become(usual)
				s.passes(5 * time.Minute)
				become(3 * usual)
				s.passes(10 * time.Minute)
				s.tell()
				s.clientsAreFine()
				s.isCalm(3)
				s.keepsTheBudget()
			})
		})
	}
}

// limiter is a provider's limit per second.
type limiter struct {
	perSecond func(at time.Duration) float64
	tokens    float64
	at        time.Duration
}

func always(perSecond float64) *limiter {
	return &limiter{perSecond: func(time.Duration) float64 { return perSecond }}
}

func (l *limiter) does(at time.Duration, _ bool) deed {
	limit := l.perSecond(at)
	l.tokens = min(l.tokens+(at-l.at).Seconds()*limit, limit/2)
	l.at = at
	if l.tokens < 1 {
		return deed{status: 429, wait: 20 * time.Millisecond}
	}
	l.tokens--
	return deed{}
}

// Both upstreams are near their limits: together they can bear all, the primary
// alone cannot.
func TestAStormOfRateLimits(t *testing.T) {
	ebb := &limiter{perSecond: func(at time.Duration) float64 {
		if at/time.Minute%2 == 0 {
			return 2 * perSecond
		}
		return 20
	}}
	for name, limits := range map[string][2]*limiter{
		"40+40":     {always(40), always(40)},
		"32+32":     {always(32), always(32)},
		"20+50":     {always(20), always(50)},
		"50+20":     {always(50), always(20)},
		"120_20+50": {ebb, always(50)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inSeason(t, two(), func(s *season) {
				s.passes(time.Minute)
				s.hosts["a"].becomes(limits[0].does)
				s.hosts["b"].becomes(limits[1].does)
				s.passes(15 * time.Minute)
				s.tell()
				s.clientsAreFine()
				s.isCalm(0)
				s.keepsTheBudget()
			})
		})
	}
}
