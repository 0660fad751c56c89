package logs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// Whatever becomes of the bytes of a file of lines, and whatever its index is: every
// question is answered, with all lines that are whole, and what is missing is said.
func TestDamageIsLeftOutAndSaid(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 7))
		how := []string{"newline", "flip", "zero", "middle cut", "end cut"}[r.IntN(5)]
		state := []string{"kept", "missing", "wrong", "in use"}[r.IntN(4)]
		t.Run(fmt.Sprintf("%d %s, index %s", seed, how, state), func(t *testing.T) {
			dir := t.TempDir()
			o := Options{Dir: dir, MaxBytes: 4 << 20}
			s := open(t, o)
			var in []string
			for n := range 100 + r.IntN(400) {
				line := decision(r, int64(n+1)*1000, n)
				switch r.IntN(20) {
				case 0:
					line = fmt.Sprintf("no json %d", n)
				case 1:
					line = fmt.Sprintf(`{"n":%d}`, n)
				}
				in = append(in, line)
			}
			store(t, s, in...)
			running := state == "in use"
			if !running || r.IntN(2) == 0 {
				shut(t, s)
				if running {
					s = open(t, o)
				}
			}
			switch {
			case running:
				lines(t, s)
			case state == "missing":
				removeSides(t, dir)
			case state == "wrong":
				spoil(t, r, dir)
			}

			names, err := filepath.Glob(filepath.Join(dir, "*"+lineSuffix))
			if err != nil {
				t.Fatal(err)
			}
			name := names[r.IntN(len(names))]
			was, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			from := r.IntN(len(was))
			to := min(from+1+r.IntN(5000), len(was))
			var is []byte
			switch how {
			case "newline":
				from = bytes.IndexByte(was[from:], '\n') + from
				to = from + 1
				is = bytes.Clone(was)
				is[from] = 'x'
			case "flip":
				to = from + 1
				is = bytes.Clone(was)
				is[from] ^= 1 << r.IntN(8)
			case "zero":
				is = bytes.Clone(was)
				clear(is[from:to])
			case "middle cut":
				is = append(bytes.Clone(was[:from]), was[to:]...)
			case "end cut":
				to = len(was)
				is = was[:from]
			}
			if err := os.WriteFile(name, is, 0o640); err != nil {
				t.Fatal(err)
			}

			// Of the lines of the file, those that were touched.
			touched := map[string]bool{}
			at := 0
			for line := range bytes.Lines(was) {
				if from < at+len(line) && to >= at {
					text := strings.TrimSuffix(string(line), "\n")
					if strings.HasPrefix(text, "@") {
						_, text, _ = strings.Cut(text, " ")
					}
					touched[text] = true
				}
				at += len(line)
			}
			cut := strings.HasSuffix(how, "cut")
			for round := range 3 {
				if !running || round > 0 {
					if round > 0 {
						shut(t, s)
					}
					s = open(t, o)
				}
				got := map[string]bool{}
				for _, line := range lines(t, s) {
					got[line] = true
				}
				if running && round == 0 && !cut { // it knows what it wrote
					for line := range got {
						if !slices.Contains(in, line) {
							t.Errorf("a line that nobody wrote is given: %.80s", line)
						}
					}
				}
				missing := 0
				for _, line := range in {
					switch {
					case got[line]:
					case !touched[line] && !(running && cut && round == 0):
						t.Errorf("round %d: a whole line is missing: %.80s", round, line)
					default:
						missing++
					}
				}
				// Of a file without an index nobody knows how it ended, and of one line
				// that is still one, what it was.
				known := state != "missing" && !(state == "wrong" && cut) && !running || how == "newline"
				if n := s.Damaged(); missing > 0 && known && n == 0 && how != "flip" {
					t.Errorf("round %d: %d lines are missing, %d are said to be", round, missing, n)
				}
				status, _, text := ask(t, s.Handler(), http.MethodGet, "/loki/api/v1/query", url.Values{
					"query": {`sum(count_over_time({service_name=~".+"}[1000d]))`}, "time": {strconv.FormatInt(time.Now().UnixNano(), 10)},
				})
				if status != http.StatusOK || !json.Valid([]byte(text)) {
					t.Errorf("round %d: %d %s", round, status, text)
				}
			}
		})
	}
}

// A newline that is none any more costs the lines that it was between, for good,
// and the answers over their time say so; others do not.
func TestADamagedNewline(t *testing.T) {
	for _, index := range []string{"kept", "missing"} {
		t.Run(index, func(t *testing.T) {
			dir := t.TempDir()
			var told atomic.Bool
			o := Options{Dir: dir, Log: func(s string) {
				if strings.Contains(s, "damaged on the disk") {
					told.Store(true)
				}
			}}
			s := open(t, o)
			var in []string
			for n := range 100 {
				in = append(in, at(int64(n+1)*int64(time.Minute), fmt.Sprintf(`"n":%d,"pad":%q`, n, strings.Repeat("p", 1000))))
			}
			store(t, s, in...)
			shut(t, s)
			name := filepath.Join(dir, "00000001.log")
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			b[bytes.IndexByte(b[len(b)/3:], '\n')+len(b)/3] = 'x'
			if err := os.WriteFile(name, b, 0o640); err != nil {
				t.Fatal(err)
			}
			if index == "missing" {
				removeSides(t, dir)
			}
			for range 3 {
				s = open(t, o)
				// An index knows where the second line began.
				if got, want := len(lines(t, s)), map[string]int{"kept": 99, "missing": 98}[index]; got != want {
					t.Errorf("%d lines, want %d", got, want)
				}
				for _, tt := range []struct {
					end  time.Duration
					says bool
				}{{100 * time.Minute, true}, {20 * time.Minute, false}} {
					_, _, text := ask(t, s.Handler(), http.MethodGet, "/loki/api/v1/query", url.Values{
						"query": {`sum(count_over_time({service_name="failback"}[2h]))`}, "time": {strconv.FormatInt(int64(tt.end), 10)},
					})
					if says := strings.Contains(text, `"warnings":["at least 1 stored line is damaged`); says != tt.says {
						t.Errorf("up to %s: %s", tt.end, text)
					}
				}
				shut(t, s)
			}
			if !told.Load() {
				t.Error("nobody was told")
			}
		})
	}
}

// Lines that were cut out whole leave no trace in the file: its old index knows how
// many there were.
func TestLinesThatAreCutOutAreMissed(t *testing.T) {
	for name, tt := range map[string]struct{ from, to, end int }{
		"in the middle": {300, 400, 350}, "at the end": {400, 500, 480},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, Options{Dir: dir})
			for n := range 500 {
				store(t, s, at(int64(n)*int64(time.Minute), `"n":1`))
			}
			shut(t, s)
			file := filepath.Join(dir, "00000001.log")
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all := bytes.SplitAfter(b, []byte("\n"))
			all = append(all[:1+tt.from:1+tt.from], all[1+tt.to:]...) // the stream is the first
			if err := os.WriteFile(file, bytes.Join(all, nil), 0o640); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				s = open(t, Options{Dir: dir})
				if got, n := len(lines(t, s)), s.Damaged(); got != 400 || n != 100 {
					t.Errorf("%d lines are there, %d are said to be missing", got, n)
				}
				end := int64(tt.end) * int64(time.Minute)
				if n := s.damaged(end-int64(time.Hour), end); n != 100 {
					t.Errorf("%d are said to be missing in their time", n)
				}
				shut(t, s)
			}
		})
	}
}
