package metrics

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/prometheus/tsdb"
)

// A clock that goes back by much must not keep samples out until its time
// comes: what is ahead is set aside, what is whole stays.
func TestClockThatGoesBackByMuch(t *testing.T) {
	dir := t.TempDir()
	s, n := opened(t, dir)
	start := time.Now().Truncate(2 * time.Hour).Add(-8 * time.Hour)
	i := 0
	upTo := func(from, to time.Time) {
		for at := from; at.Before(to); at = at.Add(time.Minute) {
			if err := s.Append(at, exampleFamilies(i)); err != nil {
				t.Fatal(err)
			}
			i++
		}
	}
	upTo(start, start.Add(7*time.Hour))
	if err := s.db.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	blocks := blockNames(s.db)
	if len(blocks) < 2 {
		t.Fatalf("%d blocks: this test proves nothing", len(blocks))
	}
	// The second block, and what is after it, is of a time that comes again.
	back := start.Add(3 * time.Hour)
	upTo(back, back.Add(10*time.Minute))
	if !strings.Contains(n.String(), "future") || len(setAsides(t, dir)) != 1 {
		t.Errorf("set aside: %v; %s", setAsides(t, dir), n)
	}
	aside, err := filepath.Glob(filepath.Join(setAsides(t, dir)[0], "*"))
	if err != nil {
		t.Fatal(err)
	}
	if kept := blockNames(s.db); len(kept) != 1 || !slices.Contains(blocks, kept[0]) || len(aside) < 3 {
		t.Errorf("blocks %v of %v are left, %v are set aside", kept, blocks, aside)
	}
	count := `count_over_time(ai_model_requests_total{provider="a"}[%s])`
	if got := ask(t, s, fmt.Sprintf(count, "15m"), back.Add(9*time.Minute)); got != "10" {
		t.Errorf("%s of 10 samples since then are there", got)
	}
	if got := ask(t, s, fmt.Sprintf(count, "2h"), start.Add(2*time.Hour).Add(-time.Minute)); got != "120" {
		t.Errorf("%s of the 120 samples before are there", got)
	}
	closeStore(t, s)
	s, n = opened(t, dir)
	if got := ask(t, s, fmt.Sprintf(count, "15m"), back.Add(9*time.Minute)); got != "10" || n.String() != "" {
		t.Errorf("after a restart %s of 10 samples are there; %s", got, n)
	}
}

func blockNames(db *tsdb.DB) []string {
	var names []string
	for _, b := range db.Blocks() {
		names = append(names, filepath.Base(b.Dir()))
	}
	return names
}

// The same where it is seen at a start: after a boot with a clock that was a
// day ahead.
func TestStartWithSamplesFromTheFuture(t *testing.T) {
	dir := t.TempDir()
	s, _ := opened(t, dir)
	if err := s.Append(time.Now().Add(24*time.Hour), exampleFamilies(1)); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	s, n := opened(t, dir)
	if err := s.Append(time.Now(), exampleFamilies(2)); err != nil {
		t.Errorf("%v; %s", err, n)
	}
	if !strings.Contains(n.String(), "future") || len(setAsides(t, dir)) != 1 {
		t.Errorf("set aside: %v; %s", setAsides(t, dir), n)
	}
}

// A clock that goes back by a little: no sample is taken until its time is there
// again, which is said, and those of the time before never look new.
func TestClockThatGoesBackByALittle(t *testing.T) {
	for _, restart := range []bool{false, true} {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			const every, step = 15 * time.Second, 5 * time.Minute
			n := &notebook{}
			begin := func() *Store {
				s, err := Open(Options{Dir: dir, Labels: ours, Log: n.log})
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			s := begin()
			back := time.Now()
			i := 0
			for at := back.Add(-30 * time.Minute); !at.After(back.Add(step)); at = at.Add(every) { // by a clock that is ahead
				if err := s.Append(at, exampleFamilies(i)); err != nil {
					t.Fatal(err)
				}
				i++
			}
			if restart {
				if err := s.db.Close(); err != nil { // no end: it is killed
					t.Fatal(err)
				}
				s.db = nil
				closeStore(t, s)
				s = begin()
			}
			defer func() { closeStore(t, s) }()
			const q = `timestamp(ai_model_requests_total{provider="a"})`
			for now := time.Now(); !now.After(back.Add(step)); now = time.Now() {
				far := back.Add(step).Sub(now)
				err := s.Append(now, exampleFamilies(i))
				a := get(t, s, "query", "query", q)
				if far == 0 {
					break
				}
				if err == nil || !strings.Contains(err.Error(), "the clock went back, the newest is "+far.String()+" ahead") {
					t.Errorf("%s ahead: %v", far, err)
				}
				said := len(a.Warnings) == 1 && strings.HasPrefix(a.Warnings[0], "samples are ahead of this clock by "+far.String()+": ")
				if a.code != http.StatusOK || !said {
					t.Errorf("%s ahead: %s", far, a.body)
				}
				if got := ask(t, s, q, now); got != fmt.Sprint(back.Unix()) {
					t.Errorf("%s ahead: the newest sample is of %s, the clock went back to %d", far, got, back.Unix())
				}
				r := get(t, s, "query_range", "query", "ai_model_requests_total", "start", unix(now.Add(-time.Hour)), "end", unix(now), "step", "15")
				if len(r.Warnings) != 1 {
					t.Errorf("%s ahead: a range: %s", far, r.body)
				}
				if r := get(t, s, "query", "query", q, "time", unix(now.Add(-20*time.Minute))); len(r.Warnings) != 0 || r.code != http.StatusOK {
					t.Errorf("of long before: %s", r.body)
				}
				<-time.After(every)
			}
			<-time.After(every)
			if err := s.Append(time.Now(), exampleFamilies(i)); err != nil {
				t.Error(err)
			}
			if a := get(t, s, "query", "query", q); len(a.Warnings) != 0 {
				t.Errorf("afterwards: %s", a.body)
			}
			if got := ask(t, s, q, time.Now()); got != fmt.Sprint(time.Now().Unix()) {
				t.Errorf("afterwards the newest is of %s", got)
			}
			if got := setAsides(t, dir); len(got) != 0 {
				t.Errorf("set aside: %v", got)
			}
		})
	}
}

// The series of a store that is closed while its clock is behind end: at the
// next start nothing old is taken for new.
func TestEndWhileTheClockIsBehind(t *testing.T) {
	s, _ := opened(t, t.TempDir())
	at := time.Now().Add(time.Minute)
	if err := s.Append(at, exampleFamilies(1)); err != nil {
		t.Fatal(err)
	}
	if err := s.Append(at.Add(-time.Minute), exampleFamilies(2)); err == nil || !strings.Contains(err.Error(), "7 of 7 samples refused") {
		t.Errorf("a scrape of a minute before: %v", err)
	}
	dir := s.o.Dir
	closeStore(t, s)
	s, _ = opened(t, dir)
	if got := ask(t, s, `ai_model_requests_total{provider="a"}`, at.Add(time.Second)); got != "none" {
		t.Errorf("it goes on with %s", got)
	}
}
