package logs

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"failback/sources/logql"
)

func TestLinesComeBackInOrder(t *testing.T) {
	s := open(t, Options{Dir: t.TempDir()})
	in := []string{at(20, `"n":1`), at(10, `"n":2`), at(20, `"n":3`), at(30, `"n":4`), at(10, `"n":5`)}
	store(t, s, in...)
	want := []string{in[1], in[4], in[0], in[2], in[3]}
	if d := cmp.Diff(want, lines(t, s)); d != "" {
		t.Error(d)
	}
	slices.Reverse(want)
	var got []string
	for _, e := range collect(t, s, everything(false)) {
		got = append(got, e.Line)
		if e.Labels != `{instance="gw-1", service_name="failback"}` {
			t.Errorf("labels %s", e.Labels)
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// A time is from Start on and before End.
func TestSpan(t *testing.T) {
	s := open(t, Options{Dir: t.TempDir()})
	for ts := range int64(10) {
		store(t, s, at(ts, `"a":1`))
	}
	for _, forward := range []bool{true, false} {
		got := collect(t, s, logql.Selection{Start: 3, End: 6, Forward: forward})
		want := []int64{3, 4, 5}
		if !forward {
			want = []int64{5, 4, 3}
		}
		if len(got) != 3 || got[0].TS != want[0] || got[1].TS != want[1] || got[2].TS != want[2] {
			t.Errorf("forward %v: %v", forward, got)
		}
	}
}

// What is no decision is kept as it is, with the time it arrived.
func TestAnyLineIsKept(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Options{Dir: dir})
	before := time.Now().UnixNano()
	in := []string{`no json`, `#{"service_name":"forged"}`, `@1 forged`, at(5, `"a":`), ` {"a":1}`, "\x00", `{"time":"yesterday"}`, `{"time":5}`, "\xff\xfe"}
	store(t, s, in...)
	check := func(s *Store) {
		t.Helper()
		got := collect(t, s, everything(true))
		var texts []string
		for _, e := range got {
			texts = append(texts, e.Line)
			if e.Labels != `{instance="gw-1", service_name="failback"}` {
				t.Errorf("%s has the labels %s", e.Line, e.Labels)
			}
			if e.TS != 5 && (e.TS < before || e.TS > time.Now().UnixNano()) {
				t.Errorf("%s has the time %d", e.Line, e.TS)
			}
		}
		want := append([]string{in[3]}, slices.Delete(slices.Clone(in), 3, 4)...)
		if d := cmp.Diff(want, texts); d != "" {
			t.Error(d)
		}
	}
	check(s)
	shut(t, s)
	removeSides(t, dir)
	check(open(t, Options{Dir: dir}))
}

func TestWriteTakesSeveralLines(t *testing.T) {
	s := open(t, Options{Dir: t.TempDir()})
	a, b, c := at(1, `"n":1`), at(2, `"n":2`), at(3, `"n":3`)
	if n, err := s.Write([]byte(a + "\n\n" + b + "\n" + c)); n != len(a)+len(b)+len(c)+3 || err != nil {
		t.Fatal(n, err)
	}
	await(t, "three lines", func() bool { w, _, _ := s.Stats(); return w == 3 })
	if d := cmp.Diff([]string{a, b, c}, lines(t, s)); d != "" {
		t.Error(d)
	}
}

// What one burst took of memory is not kept.
func TestAnEmptyQueueIsSmall(t *testing.T) {
	q := newQueue(maxLine)
	for range 8 {
		if lost, _ := q.put(bytes.Repeat([]byte{'x'}, keepBytes/4)); lost > 0 {
			t.Fatal("there is room for it")
		}
	}
	if n := len(q.take()); n < 2*keepBytes {
		t.Fatalf("%d bytes", n)
	}
	if n := len(q.take()); n != 0 || cap(q.lines)+cap(q.spare) > 2*keepBytes {
		t.Errorf("%d bytes are taken twice, and there is room for %d and %d", n, cap(q.lines), cap(q.spare))
	}
}

func TestALineThatIsTooLongIsCounted(t *testing.T) {
	s := open(t, Options{Dir: t.TempDir()})
	if _, err := s.Write([]byte(strings.Repeat("x", maxLine+1))); err != nil {
		t.Fatal(err)
	}
	store(t, s)
	if w, lost, _ := s.Stats(); w != 0 || lost != 1 {
		t.Errorf("%d written, %d lost", w, lost)
	}
	store(t, s, strings.Repeat("x", maxLine))
	if got := lines(t, s); len(got) != 1 || len(got[0]) != maxLine {
		t.Errorf("the longest line is not stored: %d lines", len(got))
	}
}

// removeSides deletes all side files and says how many there were.
func removeSides(t testing.TB, dir string) int {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"+sideSuffix))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if err := os.Remove(n); err != nil {
			t.Fatal(err)
		}
	}
	return len(names)
}

// decision makes a line as the gateway writes them, of about 1 KB.
func decision(r *rand.Rand, ts int64, n int) string {
	pick := func(s ...string) string { return s[r.IntN(len(s))] }
	route, status, reason, selected, failed := "primary", "completed", "primary_completed", "anthropic-us-east-1", ""
	if r.IntN(10) == 0 {
		route, status, selected, failed = "fallback", "degraded_completed", "vertex-us-central1", "anthropic-us-east-1"
		reason = pick("rate_limited", "breaker_open", "server_error", "first_byte_timeout")
	}
	return at(ts, fmt.Sprintf(`"event":"model_route_selected","request_id":"req-%08d","trace_id":"4bf92f3577b34da6a3ce929d0e0e4736","conversation":"c-%d","turn":"","operation_id":"","state_version":"","task_type":%q,"model":"claude-sonnet","endpoint":"/v1/messages","stream":true,"primary_provider":"anthropic-us-east-1","selected_provider":%q,"selected_model":"claude-sonnet","response_model":"claude-sonnet","substitute":false,"route":%q,"fallback_triggered":%v,"workflow_status":%q,"reason":%q,"failed_provider":%q,"candidates":[{"provider":"anthropic-us-east-1","model":"claude-sonnet","weight":1,"share":100,"skipped":""},{"provider":"vertex-us-central1","model":"claude-sonnet","weight":1,"share":100,"skipped":""}],"attempts":[{"provider":%q,"region":"us-east-1","capability":"stream","class":"ok","status":200,"first_output_ms":%d,"duration_ms":%d}],"first_output_ms":%d,"duration_ms":%d,"remaining_deadline_ms":18448,"retry_tokens":9.5,"cost_usd":0.0%d,"http_status":200,"service_version":"v1","instance":"gw-1"`,
		n, r.IntN(1000), pick("policy_question", "document_summary", "payment", "permission_change"), selected, route, route == "fallback", status, reason, failed, selected, r.IntN(300), r.IntN(3000), r.IntN(300), r.IntN(3000), 1000+r.IntN(9000)))
}

// What a store yields is compared with a plain list: whatever the order of
// times, the segments, the selection and the restarts.
func TestSelectAgainstAList(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			dir := t.TempDir()
			o := Options{Dir: dir, MaxBytes: 8 << 20, Labels: testLabels}
			s := open(t, o)
			streams := []map[string]string{testLabels, {"service_name": "failback", "instance": "gw-2"}, {"service_name": "other"}}
			var all []entry
			n := 0
			for range 4 {
				labels := streams[r.IntN(3)]
				shut(t, s)
				switch r.IntN(4) {
				case 0:
					if removeSides(t, dir) == 0 && n > 0 {
						t.Error("no side files")
					}
				case 1:
					spoil(t, r, dir)
				}
				o.Labels = labels
				s = open(t, o)
				var in []string
				for range 100 + r.IntN(600) {
					n++
					ts := int64(n) * 1000
					switch r.IntN(20) {
					case 0:
						ts -= r.Int64N(200_000)
					case 1:
						ts = int64(n/50) * 50_000
					}
					line := decision(r, ts, n)
					all = append(all, entry{ts, labelsOf(labels).String(), line})
					in = append(in, line)
				}
				store(t, s, in...)
			}
			if n := len(segmentsOf(s)); n < 3 {
				t.Fatalf("only %d segments", n)
			}
			slices.SortStableFunc(all, func(a, b entry) int { return int(a.TS - b.TS) })
			for range 40 {
				sel := logql.Selection{Start: r.Int64N(int64(n) * 1000), Forward: r.IntN(2) == 0}
				sel.End = sel.Start + r.Int64N(int64(n)*1000)
				if r.IntN(3) == 0 {
					sel.Matchers = append(sel.Matchers, condition(t, "instance", logql.Op(r.IntN(4)), "gw-2"))
				}
				if r.IntN(2) == 0 {
					sel.Where = append(sel.Where, condition(t, "fallback_triggered", logql.Equal, "true"))
				}
				if r.IntN(3) == 0 {
					sel.Where = append(sel.Where, condition(t, "reason", logql.MatchRegexp, "rate.*|primary_completed"))
				}
				if r.IntN(3) == 0 {
					sel.Where = append(sel.Where, condition(t, "task_type", logql.NotEqual, "payment"))
				}
				if r.IntN(4) == 0 {
					sel.Contains = [][]byte{[]byte(`"conversation":"c-1`)}
				}
				if r.IntN(8) == 0 {
					sel.Where = append(sel.Where, condition(t, "request_id", logql.Equal, fmt.Sprintf("req-%08d", r.IntN(n))))
				}
				var want []entry
				for _, e := range all {
					if e.TS >= sel.Start && e.TS < sel.End && matchesLine(sel, e) {
						want = append(want, e)
					}
				}
				if !sel.Forward {
					slices.Reverse(want)
				}
				if d := cmp.Diff(want, collect(t, s, sel)); d != "" {
					t.Fatalf("%+v: %s", sel, d)
				}
				var parts []entry
				for _, p := range s.Partitions(sel, 1+r.IntN(4)) {
					parts = append(parts, collect(t, p, sel)...)
				}
				if d := cmp.Diff(want, parts); d != "" {
					t.Fatalf("in parts: %+v: %s", sel, d)
				}
			}
		})
	}
}

// matchesLine decides sel of a line of decision's by its text.
func matchesLine(sel logql.Selection, e entry) bool {
	for _, m := range sel.Matchers {
		v := ""
		if _, rest, ok := strings.Cut(e.Labels, m.Name+`="`); ok {
			v, _, _ = strings.Cut(rest, `"`)
		}
		if !m.Matches(v) {
			return false
		}
	}
	for _, c := range sel.Where {
		_, rest, _ := strings.Cut(e.Line, `"`+c.Name+`":`)
		v, _, _ := strings.Cut(rest, ",")
		if !c.Matches(strings.Trim(v, `"`)) {
			return false
		}
	}
	for _, b := range sel.Contains {
		if !strings.Contains(e.Line, string(b)) {
			return false
		}
	}
	return true
}

// spoil changes a byte of every side file.
func spoil(t *testing.T, r *rand.Rand, dir string) {
	names, _ := filepath.Glob(filepath.Join(dir, "*"+sideSuffix))
	for _, n := range names {
		b, err := os.ReadFile(n)
		if err != nil {
			t.Fatal(err)
		}
		b[r.IntN(len(b))] ^= 1 << r.IntN(8)
		if err := os.WriteFile(n, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPartitionsShareTheLines(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(6)) // half of which work
	s := open(t, Options{Dir: t.TempDir(), MaxBytes: 64 << 20})
	var in []string
	for i := range 4 * partLines {
		in = append(in, at(int64(i), `"event":"x"`))
	}
	store(t, s, in...)
	share := func(least int) {
		t.Helper()
		for _, forward := range []bool{true, false} {
			parts := s.Partitions(everything(forward), 3)
			if len(parts) != 3 {
				t.Fatalf("%d parts", len(parts))
			}
			var got []entry
			for _, p := range parts {
				part := collect(t, p, everything(forward))
				if len(part) < least {
					t.Errorf("a part has %d lines", len(part))
				}
				got = append(got, part...)
			}
			if d := cmp.Diff(collect(t, s, everything(forward)), got); d != "" {
				t.Error(d)
			}
		}
	}
	share(partLines)
	// Lines that come late, as they please.
	for i := range 4 * partLines {
		in = append(in, at(int64(i%(2*partLines)), `"event":"late"`))
	}
	store(t, s, in[4*partLines:]...)
	share(0)
}

func TestATornLineIsDropped(t *testing.T) {
	for name, tail := range map[string]string{
		"half a line": `{"time":"2026-`, "zeros": "\x00\x00\x00\x00", "half a line and zeros": `{"ti` + strings.Repeat("\x00", 100<<10),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, Options{Dir: dir})
			now := time.Now().UnixNano()
			a, b := at(now, `"n":1`), at(now+1, `"n":2`)
			store(t, s, a)
			shut(t, s)
			name := filepath.Join(dir, "00000001.log")
			f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteString(tail); err != nil {
				t.Fatal(err)
			}
			f.Close()
			s = open(t, Options{Dir: dir})
			store(t, s, b)
			if d := cmp.Diff([]string{a, b}, lines(t, s)); d != "" {
				t.Error(d)
			}
			if n := segmentsOf(s); len(n) != 1 {
				t.Errorf("segments %v", n)
			}
		})
	}
}

// childDir tells a test process that it is the one to be killed.
const childDir = "FAILBACK_TEST_LOG_DIR"

// TestKilled kills a process while it writes. All that it saw stored is there
// afterwards, and nothing but whole lines.
func TestKilled(t *testing.T) {
	if dir := os.Getenv(childDir); dir != "" {
		writeForever(t, dir)
		return
	}
	dir := t.TempDir()
	for range 3 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilled$")
		cmd.Env = append(os.Environ(), childDir+"="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		sc := bufio.NewScanner(out)
		stored := 0
		for sc.Scan() {
			if stored, err = strconv.Atoi(sc.Text()); err != nil {
				t.Fatalf("the child says %q", sc.Text())
			}
			if stored > 700 {
				break
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		s := open(t, Options{Dir: dir, MaxBytes: 8 << 20})
		got := lines(t, s)
		shut(t, s)
		if len(got) < stored {
			t.Errorf("%d lines were stored, %d are there", stored, len(got))
		}
		for i, l := range got {
			if want := at(int64(i), `"event":"x","pad":"`+strings.Repeat("p", i%997)+`"`); l != want {
				t.Fatalf("line %d is %q", i, l)
			}
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
}

func writeForever(t *testing.T, dir string) {
	s, err := Open(Options{Dir: dir, MaxBytes: 8 << 20, MaxAge: 1 << 62, Labels: testLabels})
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; ; i++ {
		store(t, s, at(int64(i), `"event":"x","pad":"`+strings.Repeat("p", i%997)+`"`))
		w, _, _ := s.Stats()
		fmt.Println(w)
	}
}

func TestSizeIsBounded(t *testing.T) {
	dir := t.TempDir()
	const most = 1 << 20
	s := open(t, Options{Dir: dir, MaxBytes: most})
	r := rand.New(rand.NewPCG(1, 1))
	var in []string
	for range 500 {
		for range 1 + r.IntN(20) {
			in = append(in, decision(r, int64(len(in)), len(in)))
		}
		w, _, _ := s.Stats()
		store(t, s, in[w:]...)
		if n := dirSize(t, dir); n > most {
			t.Fatalf("%d bytes after %d lines", n, len(in))
		}
	}
	got := lines(t, s)
	if len(got) < 600 || !slices.Equal(got, in[len(in)-len(got):]) {
		t.Errorf("%d lines are left, or not the newest", len(got))
	}
	shut(t, s)
	if n := dirSize(t, dir); n > most {
		t.Errorf("%d bytes", n)
	}
}

func dirSize(t *testing.T, dir string) (n int64) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			n += info.Size()
		}
	}
	return n
}

// A segment that is being read stays until it has been read.
func TestRetentionWaitsForReaders(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Options{Dir: dir, MaxBytes: 1 << 20})
	r := rand.New(rand.NewPCG(1, 1))
	n := 0
	more := func(lines int) {
		var in []string
		for range lines {
			in = append(in, decision(r, int64(n), n))
			n++
		}
		store(t, s, in...)
	}
	more(400)
	first := filepath.Join(dir, "00000001.log")
	seen := int64(0)
	err := s.Select(t.Context(), everything(true), func(e logql.Entry) bool {
		if seen == 0 {
			more(3000)
			if _, err := os.Stat(first); err != nil {
				t.Errorf("it went while it was read: %v", err)
			}
			if slices.Contains(segmentsOf(s), 1) {
				t.Error("it is still found")
			}
		}
		if e.TS != seen {
			t.Errorf("line %d comes where %d should", e.TS, seen)
		}
		seen++
		return true
	})
	if err != nil || seen != 400 {
		t.Errorf("%d lines, %v", seen, err)
	}
	if _, err := os.Stat(first); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it stayed: %v", err)
	}
}

func TestOldLinesGo(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	r := rand.New(rand.NewPCG(1, 1))
	s := open(t, Options{Dir: dir, MaxBytes: 1 << 20})
	for i := range 200 {
		store(t, s, decision(r, now.Add(-2*time.Hour).UnixNano()+int64(i), i))
	}
	shut(t, s)
	s = open(t, Options{Dir: dir, MaxBytes: 1 << 20, MaxAge: time.Hour})
	fresh := decision(r, now.UnixNano(), 1)
	store(t, s, fresh)
	await(t, "the old lines to go", func() bool { return len(segmentsOf(s)) == 1 })
	if got := lines(t, s); !slices.Equal(got, []string{fresh}) { // not in the segment of the old ones
		t.Errorf("%d lines", len(got))
	}
}

// Also in a store that runs, and gets few lines: they are in several segments, for
// the old ones to go before all are old.
func TestOldLinesGoInTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, Options{Dir: t.TempDir(), MaxAge: segments * time.Hour})
		write := func(n int) string {
			line := at(time.Now().UnixNano(), fmt.Sprintf(`"n":%d`, n))
			if _, err := s.Write([]byte(line)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			return line
		}
		pass := func(d time.Duration) { <-time.After(d); synctest.Wait() }
		write(1)
		pass(time.Hour + 2*lookEvery)
		second := write(2)
		if n := segmentsOf(s); len(n) != 2 {
			t.Errorf("segments %v", n)
		}
		pass((segments-1)*time.Hour + lookEvery)
		if got := lines(t, s); !slices.Equal(got, []string{second}) {
			t.Errorf("%q", got)
		}
	})
}

// fullDisk is a file on a disk that takes only so much.
type fullDisk struct {
	file
	room *diskRoom
}

type diskRoom struct{ left, calls chan int64 }

func newDiskRoom(n int64) *diskRoom {
	d := &diskRoom{left: make(chan int64, 1), calls: make(chan int64, 1<<16)}
	d.left <- n
	return d
}

func (d *diskRoom) set(n int64) { <-d.left; d.left <- n }

var errFull = errors.New("no space left on device")

func (f fullDisk) Write(p []byte) (int, error) {
	left := <-f.room.left
	n := min(left, int64(len(p)))
	f.room.left <- left - n
	f.room.calls <- n
	m, err := f.file.Write(p[:n])
	if err == nil && m < len(p) {
		err = errFull
	}
	return m, err
}

func TestAFullDiskIsNamedAndRecoveredFrom(t *testing.T) {
	dir := t.TempDir()
	said := make(chan string, 100)
	room := newDiskRoom(1000)
	s := open(t, Options{Dir: dir, Log: func(m string) { said <- m }, files: func(name string) (file, error) {
		f, err := openFile(name)
		return fullDisk{f, room}, err
	}})
	a := at(1, `"n":1`)
	store(t, s, a)
	var want []string
	for i := range 40 { // more than the disk takes, less than may wait
		l := at(int64(i+2), `"pad":"`+strings.Repeat("x", 50)+`"`)
		want = append(want, l)
		if _, err := s.Write([]byte(l)); err != nil {
			t.Fatal(err)
		}
	}
	await(t, "the full disk in Stats", func() bool { _, _, err := s.Stats(); return errors.Is(err, errFull) })
	if m := <-said; !strings.Contains(m, "no space left") {
		t.Errorf("said %q", m)
	}
	// What is stored can be read, what waits is not seen.
	if got := lines(t, s); len(got) == 0 || got[0] != a {
		t.Errorf("%d lines", len(got))
	}
	// More than may wait is lost, counted, and keeps nobody.
	big := at(1, `"pad":"`+strings.Repeat("y", 100<<10)+`"`)
	for range 60 {
		if n, err := s.Write([]byte(big)); n != len(big) || err != nil {
			t.Fatal(n, err)
		}
	}
	_, lost, _ := s.Stats()
	if lost < 15 || lost > 25 {
		t.Errorf("%d lines lost", lost)
	}
	select {
	case m := <-said:
		t.Errorf("said again: %q", m)
	default:
	}
	room.set(1 << 30)
	await(t, "the disk to be used again", func() bool { w, _, err := s.Stats(); return err == nil && w == 101-lost })
	if m := <-said; m != fmt.Sprintf("embedded log: writing again; %d lines were lost", lost) {
		t.Errorf("said %q", m)
	}
	b := at(1<<40, `"n":2`)
	store2, _, _ := s.Stats()
	if _, err := s.Write([]byte(b)); err != nil {
		t.Fatal(err)
	}
	await(t, "a line more", func() bool { w, _, _ := s.Stats(); return w == store2+1 })
	check := func(s *Store) {
		t.Helper()
		got := lines(t, s)
		if len(got) != int(102-lost) || got[len(got)-1] != b {
			t.Errorf("%d lines", len(got))
		}
		for _, l := range want {
			if !slices.Contains(got, l) {
				t.Errorf("%s is missing or torn", l)
			}
		}
	}
	check(s)
	shut(t, s)
	removeSides(t, dir)
	check(open(t, Options{Dir: dir}))
}

// Closing on a full disk does not wait for room; the lines are counted.
func TestCloseOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	room := newDiskRoom(200)
	s, err := Open(Options{Dir: dir, Labels: testLabels, files: func(name string) (file, error) {
		f, err := openFile(name)
		return fullDisk{f, room}, err
	}})
	if err != nil {
		t.Fatal(err)
	}
	a := at(1, `"n":1`)
	store(t, s, a)
	for range 10 {
		_, _ = s.Write([]byte(at(2, `"pad":"`+strings.Repeat("x", 50)+`"`)))
	}
	if err := s.Close(context.Background()); !errors.Is(err, errFull) {
		t.Errorf("Close: %v", err)
	}
	w, lost, _ := s.Stats()
	if w+lost != 11 || lost == 0 {
		t.Errorf("%d written, %d lost", w, lost)
	}
	if n, err := s.Write([]byte(a)); n != 0 || !errors.Is(err, os.ErrClosed) {
		t.Errorf("after Close: %d, %v", n, err)
	}
	s = open(t, Options{Dir: dir})
	if got := lines(t, s); len(got) < int(w) || got[0] != a {
		t.Errorf("%d lines, %d were written", len(got), w)
	}
}

// Somebody deletes the files of a running gateway.
func TestDeletedFiles(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Options{Dir: dir, MaxBytes: 1 << 20})
	r := rand.New(rand.NewPCG(1, 1))
	for i := range 200 {
		store(t, s, decision(r, int64(i), i))
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if got := lines(t, s); len(got) != 0 {
		t.Errorf("%d lines", len(got))
	}
	last := segmentsOf(s)
	var in []string
	for i := range 200 { // until a new segment is begun
		in = append(in, decision(r, int64(1000+i), i))
	}
	store(t, s, in...)
	if got := lines(t, s); len(got) == 0 || got[len(got)-1] != in[199] {
		t.Errorf("%d lines", len(got))
	}
	if now := segmentsOf(s); slices.Max(now) <= slices.Max(last) {
		t.Errorf("a number is used again: %v, then %v", last, now)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, o := range []Options{{}, {Dir: "x", MaxBytes: 1000}, {Dir: "x", MaxAge: -1}, {Dir: "x", Indexed: make([]string, 40)}} {
		if _, err := Open(o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
	if _, err := os.Stat("x"); err == nil {
		t.Error("a directory was made")
	}
}

func TestSelectEnds(t *testing.T) {
	s := open(t, Options{Dir: t.TempDir(), MaxBytes: 64 << 20})
	r := rand.New(rand.NewPCG(1, 1))
	var in []string
	for i := range 5000 {
		in = append(in, decision(r, int64(i), i))
	}
	store(t, s, in...)
	n := 0
	if err := s.Select(t.Context(), everything(true), func(logql.Entry) bool { n++; return n < 10 }); err != nil || n != 10 {
		t.Errorf("stopped after %d, %v", n, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	n = 0
	err := s.Select(ctx, everything(false), func(logql.Entry) bool {
		if n++; n == 100 {
			cancel()
		}
		return true
	})
	if !errors.Is(err, context.Canceled) || n > 100+mostLines {
		t.Errorf("%d lines after the end, %v", n, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.segs {
		if g.readers != 0 {
			t.Errorf("segment %d has %d readers", g.number, g.readers)
		}
	}
}
