package metrics

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("METRICS_TEST_WRITE_AND_HANG"); dir != "" {
		writeAndHang(dir)
	}
	if dir := os.Getenv("METRICS_TEST_FULL_DISK"); dir != "" {
		if err := writeOnFullDisk(dir); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// writeAndHang is the process that is killed.
func writeAndHang(dir string) {
	s, err := Open(Options{Dir: dir, Labels: ours})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	start := time.Now().Add(-10 * time.Minute)
	for i := range 40 {
		if err := s.Append(start.Add(time.Duration(i)*step), exampleFamilies(i)); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	fmt.Println("written")
	select {}
}

// killed returns a directory that a killed process left, with 40 scrapes in
// the last ten minutes.
func killed(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), "METRICS_TEST_WRITE_AND_HANG="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	if line != "written\n" {
		t.Fatalf("the process says %q", line)
	}
	return dir
}

const countQuery = `count_over_time(ai_model_requests_total{provider="a"}[30m])`

func TestKilledProcessLosesNothing(t *testing.T) {
	dir := killed(t)
	s, n := opened(t, dir)
	if got := ask(t, s, countQuery, time.Now()); got != "40" {
		t.Errorf("%s of 40 samples are there", got)
	}
	if aside := setAsides(t, dir); len(aside) > 0 {
		t.Errorf("set aside: %v; %s", aside, n)
	}
	// It goes on where it was.
	if err := s.Append(time.Now(), exampleFamilies(40)); err != nil {
		t.Fatal(err)
	}
	if got := ask(t, s, countQuery, time.Now()); got != "41" {
		t.Errorf("%s of 41 samples are there", got)
	}
}

// Series that the killed process had and this one has not end at its first
// scrape.
func TestSeriesOfAKilledProcessEnd(t *testing.T) {
	s, _ := opened(t, killed(t))
	now := time.Now()
	const both = `count(ai_model_requests_total)`
	if got := ask(t, s, both, now); got != "2" {
		t.Fatalf("%s of 2 series are there before the first scrape", got)
	}
	appendAt(t, s, now, "# TYPE ai_model_requests_total counter\nai_model_requests_total{model=\"m\",provider=\"b\"} 1")
	if got := ask(t, s, both, now); got != "1" {
		t.Errorf("%s series are there after the first scrape, want that one alone", got)
	}
}

func TestTornWriteAheadLog(t *testing.T) {
	dir := killed(t)
	segment := newestSegment(t, dir)
	b, err := os.ReadFile(segment)
	if err != nil {
		t.Fatal(err)
	}
	b = []byte(strings.TrimRight(string(b), "\x00"))
	if err := os.WriteFile(segment, b[:len(b)-10], 0o640); err != nil {
		t.Fatal(err)
	}
	s, n := opened(t, dir)
	if got := ask(t, s, countQuery, time.Now()); got != "39" {
		t.Errorf("%s of 40 samples are there, want all but the torn one; %s", got, n)
	}
	if err := s.Append(time.Now(), exampleFamilies(40)); err != nil {
		t.Error(err)
	}
}

func TestGarbageInTheWriteAheadLog(t *testing.T) {
	dir := killed(t)
	segment := newestSegment(t, dir)
	b, err := os.ReadFile(segment)
	if err != nil {
		t.Fatal(err)
	}
	copy(b[len(b)/2:], strings.Repeat("garbage!", 100))
	if err := os.WriteFile(segment, b, 0o640); err != nil {
		t.Fatal(err)
	}
	s, n := opened(t, dir)
	if got := ask(t, s, countQuery, time.Now()); got == "none" {
		t.Errorf("nothing is left of what stood before the garbage; %s", n)
	}
	if !strings.Contains(n.String(), "WAL") {
		t.Errorf("the damage is not said: %s", n)
	}
	if err := s.Append(time.Now(), exampleFamilies(40)); err != nil {
		t.Error(err)
	}
}

func newestSegment(t *testing.T, dir string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "wal", "0*"))
	if err != nil || len(found) == 0 {
		t.Fatal("no segments", err)
	}
	return found[len(found)-1]
}

func setAsides(t *testing.T, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, damagedPrefix+"*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// withBlocks returns a directory with at least two blocks.
func withBlocks(t *testing.T) (dir string, blocks []string, start time.Time) {
	t.Helper()
	dir = t.TempDir()
	s, _ := opened(t, dir)
	start = time.Now().Add(-8 * time.Hour).Truncate(2 * time.Hour)
	for i := 0; start.Add(time.Duration(i) * time.Minute).Before(time.Now().Add(-time.Minute)); i++ {
		if err := s.Append(start.Add(time.Duration(i)*time.Minute), exampleFamilies(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.db.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, b := range s.db.Blocks() {
		blocks = append(blocks, b.Meta().ULID.String())
	}
	closeStore(t, s)
	if len(blocks) < 2 {
		t.Fatalf("only the blocks %v", blocks)
	}
	return dir, blocks, start
}

// Only the block that is damaged is lost.
func TestDamagedBlock(t *testing.T) {
	for name, spoil := range map[string]func(block string) error{
		"index cut off": func(b string) error { return os.Truncate(filepath.Join(b, "index"), 40) },
		"no index":      func(b string) error { return os.Remove(filepath.Join(b, "index")) },
		"index of garbage": func(b string) error {
			return os.WriteFile(filepath.Join(b, "index"), []byte(strings.Repeat("garbage", 99)), 0o640)
		},
		"chunks cut off":        func(b string) error { return os.Truncate(filepath.Join(b, "chunks", "000001"), 3) },
		"description of nulls":  func(b string) error { return os.WriteFile(filepath.Join(b, "meta.json"), make([]byte, 200), 0o640) },
		"description cut off":   func(b string) error { return os.Truncate(filepath.Join(b, "meta.json"), 30) },
		"without a description": func(b string) error { return os.Remove(filepath.Join(b, "meta.json")) },
	} {
		t.Run(name, func(t *testing.T) {
			dir, blocks, _ := withBlocks(t)
			if err := spoil(filepath.Join(dir, blocks[0])); err != nil {
				t.Fatal(err)
			}
			s, n := opened(t, dir)
			aside := setAsides(t, dir)
			if len(aside) != 1 {
				t.Fatalf("set aside: %v; %s", aside, n)
			}
			moved, err := contents(aside[0])
			if err != nil || len(moved) != 1 || moved[0] != blocks[0] {
				t.Errorf("set aside: %v %v, want %v", moved, err, blocks[:1])
			}
			if !strings.Contains(n.String(), blocks[0]) || !strings.Contains(n.String(), aside[0]) {
				t.Errorf("not said: %s", n)
			}
			if got := ask(t, s, "sum(ai_model_requests_total)", time.Now()); got != "none" {
				t.Errorf("a closed store's series have the value %s", got)
			}
			if got := ask(t, s, `max(count_over_time(ai_model_requests_total[12h]))`, time.Now()); got == "none" {
				t.Errorf("the other blocks are lost too; %s", n)
			}
			if err := s.Append(time.Now(), exampleFamilies(1)); err != nil {
				t.Error(err)
			}
		})
	}
}

// What cannot be opened at all is set aside as a whole, and of such only the
// newest stays.
func TestDamagedDirectory(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		if err := os.RemoveAll(filepath.Join(dir, "wal")); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "wal"), []byte("not a directory"), 0o640); err != nil {
			t.Fatal(err)
		}
		s, n := opened(t, dir)
		aside := setAsides(t, dir)
		if len(aside) != 1 || !strings.Contains(n.String(), aside[0]) {
			t.Fatalf("set aside: %v; %s", aside, n)
		}
		if err := s.Append(time.Now(), exampleFamilies(1)); err != nil {
			t.Error(err)
		}
		closeStore(t, s)
	}
	s, n := opened(t, dir)
	if got := ask(t, s, countQuery, time.Now()); got != "1" {
		t.Errorf("%s of 1 sample is there; %s", got, n)
	}
}

// Two processes do not write one directory, and the second does not take the
// first's files for damage.
func TestDirectoryInUse(t *testing.T) {
	dir := t.TempDir()
	s, _ := opened(t, dir)
	if err := s.Append(time.Now(), exampleFamilies(1)); err != nil {
		t.Fatal(err)
	}
	second, err := Open(Options{Dir: dir})
	if err == nil {
		closeStore(t, second)
	}
	if err == nil || !strings.Contains(err.Error(), "another process has it open") {
		t.Errorf("opened twice: %v", err)
	}
	if aside := setAsides(t, dir); len(aside) > 0 {
		t.Errorf("set aside: %v", aside)
	}
	if got := ask(t, s, countQuery, time.Now()); got != "1" {
		t.Errorf("%s of 1 sample is there", got)
	}
}

func TestDirectoryThatCannotBe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o640); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"", file, filepath.Join(file, "below")} {
		if s, err := Open(Options{Dir: dir}); err == nil {
			t.Errorf("%q is opened", dir)
			closeStore(t, s)
		}
	}
	if _, err := os.Stat(file); err != nil {
		t.Errorf("it was touched: %v", err)
	}
}

// After a clean end and a start nothing old is taken for new.
func TestCleanEndIsMarked(t *testing.T) {
	dir := t.TempDir()
	s, _ := opened(t, dir)
	if err := s.Append(time.Now().Add(-time.Second), exampleFamilies(7)); err != nil {
		t.Fatal(err)
	}
	before := time.Now()
	if got := ask(t, s, "up", before); got != "1" {
		t.Errorf("up is %s while it runs", got)
	}
	closeStore(t, s)

	s, _ = opened(t, dir)
	now := time.Now().Add(time.Second)
	for _, q := range []string{"up", newestQuery, existQuery} {
		if got := ask(t, s, q, now); got != "none" {
			t.Errorf("%s is %s after the end", q, got)
		}
	}
	if got := ask(t, s, "max_over_time(up[1m])", now); got != "1" {
		t.Errorf("what was before is %s", got)
	}
	at := time.Now()
	if err := s.Append(at, exampleFamilies(0)); err != nil {
		t.Fatal(err)
	}
	if got := ask(t, s, "up", at); got != "1" {
		t.Errorf("up is %s after the start", got)
	}
}

// Blocks beyond age or size go.
func TestRetention(t *testing.T) {
	for name, o := range map[string]Options{
		"age":  {Retention: time.Hour},
		"size": {MaxBytes: 1},
	} {
		t.Run(name, func(t *testing.T) {
			dir, blocks, _ := withBlocks(t)
			o.Dir, o.Labels = dir, ours
			s, err := Open(o)
			if err != nil {
				t.Fatal(err)
			}
			defer closeStore(t, s)
			left := len(s.db.Blocks())
			if left >= len(blocks) {
				t.Errorf("%d of %d blocks are left", left, len(blocks))
			}
			if err := s.Append(time.Now(), exampleFamilies(0)); err != nil {
				t.Error(err)
			}
		})
	}
}

// writeOnFullDisk is a process whose files may for a while not grow: writes
// are cut off in the middle, as on a full disk.
func writeOnFullDisk(dir string) error {
	signal.Ignore(syscall.SIGXFSZ)
	n := &notebook{}
	s, err := Open(Options{Dir: dir, Labels: ours, Log: n.log})
	if err != nil {
		return err
	}
	start := time.Now().Add(-10 * time.Minute)
	var limit syscall.Rlimit
	stored := 0
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	for i := range 40 {
		switch i {
		case 10: // full, in the middle of the next record
			info, err := os.Stat(filepath.Join(dir, "wal", "00000000"))
			if err != nil {
				return err
			}
			small := limit
			small.Cur = uint64(info.Size()) + 40<<10
			if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &small); err != nil {
				return err
			}
		case 20:
			if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
				return err
			}
		}
		err := s.Append(start.Add(time.Duration(i)*step), append(exampleFamilies(i), noise()))
		switch full := i >= 10 && i < 20; {
		case err == nil:
			stored++
		case !full:
			return fmt.Errorf("scrape %d: %v; %s", i, err, n)
		}
	}
	fmt.Println(stored)
	return nil // without Close: what is not on the disk is lost
}

// noise is a family whose samples are more than a page of the log, so that a
// record can be cut off between two pages.
func noise() *dto.MetricFamily {
	gauge, name, label := dto.MetricType_GAUGE, "noise", "n"
	mf := &dto.MetricFamily{Name: &name, Type: &gauge}
	for i := range 8000 {
		n, v := strconv.Itoa(i), rand.Float64()
		mf.Metric = append(mf.Metric, &dto.Metric{Label: []*dto.LabelPair{{Name: &label, Value: &n}}, Gauge: &dto.Gauge{Value: &v}})
	}
	return mf
}

// What was stored before and after the disk was full is there after a start,
// also without a clean end.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), "METRICS_TEST_FULL_DISK="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want := strings.TrimSpace(string(out))
	if want == "40" {
		t.Fatal("every scrape was stored: this test proves nothing")
	}
	s, n := opened(t, dir)
	if got := ask(t, s, countQuery, time.Now()); got != want {
		t.Errorf("%s of %s samples are there; %s", got, want, n)
	}
	if aside := setAsides(t, dir); len(aside) > 0 {
		t.Errorf("set aside: %v", aside)
	}
}

// While the store cannot be opened again, questions are refused and scrapes
// try again.
func TestStoreThatCannotBeOpenedAgain(t *testing.T) {
	dir := t.TempDir()
	s, _ := opened(t, dir)
	if err := s.Append(time.Now().Add(-time.Minute), exampleFamilies(1)); err != nil {
		t.Fatal(err)
	}
	s.scraper.torn = true
	closeStore(t, &Store{stop: func() {}, limits: s.limits, engine: s.engine, db: s.db}) // so that another can take the directory
	s.db = nil
	other, err := Open(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Append(time.Now(), exampleFamilies(2)); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("Append: %v", err)
	}
	if a := get(t, s, "query", "query", "1"); a.code != 503 || a.ErrorType != "unavailable" || !strings.Contains(a.Error, "could not be opened again") {
		t.Errorf("%d %s", a.code, a.body)
	}
	closeStore(t, other)
	if err := s.Append(time.Now(), exampleFamilies(3)); err != nil {
		t.Errorf("Append after the other is gone: %v", err)
	}
	if got := ask(t, s, countQuery, time.Now()); got != "2" {
		t.Errorf("%s of 2 samples are there", got)
	}
}

// Close says what keeps it from closing, instead of waiting for ever, and the
// store is closed once that ends.
func TestCloseDuringAQueryThatDoesNotEnd(t *testing.T) {
	dir := t.TempDir()
	l := defaultLimits
	l.patience = 20 * time.Millisecond
	s, err := open(Options{Dir: dir, Labels: ours}, l)
	if err != nil {
		t.Fatal(err)
	}
	done, err := s.use()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); !errors.Is(err, errInUse) {
		t.Errorf("Close: %v", err)
	}
	if a := get(t, s, "query", "query", "1"); a.code != 503 {
		t.Errorf("a query meanwhile: %d %s", a.code, a.body)
	}
	done()
	s.limits.patience = time.Minute
	closeStore(t, s) // waits for the first
	again, _ := opened(t, dir)
	if got := ask(t, again, "vector(1)", time.Now()); got != "1" {
		t.Error(got)
	}
}
