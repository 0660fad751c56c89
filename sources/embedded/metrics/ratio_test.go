package metrics

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The four questions of the console about fallbacks.
const (
	ratioQuery   = `( sum(rate(ai_fallback_triggered_total{job="failback"}[5m])) / (sum(rate(ai_model_requests_total{job="failback"}[5m])) > 0) ) or vector(0)`
	trafficQuery = `sum(rate(ai_model_requests_total{job="failback"}[5m]))`
	existQuery   = `count(ai_model_requests_total{job="failback"})`
	newestQuery  = `max(timestamp(ai_model_requests_total{job="failback"}))`
)

// facts are their answers, rounded; age is that of the newest sample.
type facts struct{ ratio, traffic, series, age string }

func factsAt(t *testing.T, s *Store, at time.Time) facts {
	t.Helper()
	f := facts{
		ratio:   rounded(t, ask(t, s, ratioQuery, at)),
		traffic: rounded(t, ask(t, s, trafficQuery, at)),
		series:  ask(t, s, existQuery, at),
		age:     "none",
	}
	if newest := ask(t, s, newestQuery, at); newest != "none" {
		sec, err := strconv.ParseFloat(newest, 64)
		if err != nil {
			t.Fatal(err)
		}
		f.age = at.Sub(time.UnixMilli(int64(sec * 1000))).String()
	}
	return f
}

func rounded(t *testing.T, v string) string {
	t.Helper()
	if v == "none" {
		return v
	}
	f, err := strconv.ParseFloat(v, 64)
	if err != nil {
		t.Fatal(err)
	}
	return strconv.FormatFloat(f, 'f', 4, 64)
}

const step = 15 * time.Second

// long ago enough that no sample is ahead of the clock, at a whole minute.
func someTime() time.Time { return time.Now().Add(-time.Hour).Truncate(time.Minute) }

// requests and fallbacks are one scrape of these counters; a negative value
// leaves one out.
func scrapeText(requestsA, requestsB, fallbacksA, fallbacksB int) string {
	var b strings.Builder
	for _, c := range []struct {
		name, labels string
		v            int
	}{
		{"ai_model_requests_total", `{model="m",provider="a"}`, requestsA},
		{"ai_model_requests_total", `{model="m",provider="b"}`, requestsB},
		{"ai_fallback_triggered_total", `{model="m",primary="a"}`, fallbacksA},
		{"ai_fallback_triggered_total", `{model="m",primary="b"}`, fallbacksB},
	} {
		if c.v < 0 {
			continue
		}
		if !strings.Contains(b.String(), "# TYPE "+c.name) {
			fmt.Fprintf(&b, "# TYPE %s counter\n", c.name)
		}
		fmt.Fprintf(&b, "%s%s %d\n", c.name, c.labels, c.v)
	}
	return b.String()
}

// Every subset of the four series is absent once. a has 4 requests and one
// fallback in each scrape, b has 8 and 4.
func TestRatioOverThePowerSetOfAbsentSeries(t *testing.T) {
	for present := range 16 {
		counts := [4]int{4, 8, 1, 4}
		var fallbacks, requests float64
		series := 0
		for i := range counts {
			switch {
			case present&(1<<i) == 0:
			case i < 2:
				requests += float64(counts[i]) / step.Seconds()
				series++
			default:
				fallbacks += float64(counts[i]) / step.Seconds()
			}
		}
		want := facts{ratio: "0.0000", traffic: "none", series: "none", age: "none"}
		if series > 0 {
			want.ratio = fmt.Sprintf("%.4f", fallbacks/requests)
			want.traffic = fmt.Sprintf("%.4f", requests)
			want.series = strconv.Itoa(series)
			want.age = "0s"
		}
		t.Run(fmt.Sprintf("%04b", present), func(t *testing.T) {
			s, _ := opened(t, t.TempDir())
			start := someTime()
			last := start
			for i := range 30 {
				var v [4]int
				for j := range v {
					v[j] = -1
					if present&(1<<j) != 0 {
						v[j] = counts[j] * i
					}
				}
				last = start.Add(time.Duration(i) * step)
				appendAt(t, s, last, scrapeText(v[0], v[1], v[2], v[3]))
			}
			if got := factsAt(t, s, last); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

// What the four questions answer where series are there but do not tell what
// they seem to.
func TestRatioOfSeriesThatStandStillBeginAndEnd(t *testing.T) {
	steady := func(i int) string { return scrapeText(4*i, 8*i, i, 2*i) }
	for _, tc := range []struct {
		name    string
		scrapes int
		text    func(i int) string
		after   time.Duration // since the last scrape
		want    facts
	}{
		{"steady", 30, steady, 0, facts{"0.2500", "0.8000", "2", "0s"}},
		{"steady, between scrapes", 30, steady, 10 * time.Second, facts{"0.2500", "0.8000", "2", "10s"}},
		{"only fallbacks stand still", 30, func(i int) string { return scrapeText(4*i, 8*i, 3, 3) }, 0, facts{"0.0000", "0.8000", "2", "0s"}},
		// 0/0 without the > 0; with it the ratio is 0, and only the traffic
		// tells that it means nothing.
		{"all stand still", 30, func(int) string { return scrapeText(100, 100, 50, 0) }, 0, facts{"0.0000", "0.0000", "2", "0s"}},
		{"one sample only", 1, func(int) string { return scrapeText(100, 100, 50, 0) }, 0, facts{"0.0000", "none", "2", "0s"}},
		// Since the series begin at 3 and not at 0, nobody sees the 3.
		{"first sample after the first increment", 30, func(i int) string {
			if i < 15 {
				return scrapeText(4*i, 8*i, -1, -1)
			}
			return scrapeText(4*i, 8*i, 3, 3)
		}, 0, facts{"0.0000", "0.8000", "2", "0s"}},
		{"a counter that was there at 0", 30, func(i int) string {
			if i < 15 {
				return scrapeText(4*i, 8*i, 0, 0)
			}
			return scrapeText(4*i, 8*i, 3, 3)
		}, 0, facts{"0.0250", "0.8000", "2", "0s"}}, // 6 of 240 within 5 m: a rate is not extrapolated below 0
		{"counters reset by a restart", 30, func(i int) string {
			if i >= 20 {
				i -= 19
			}
			return scrapeText(4*i, 8*i, i, 2*i)
		}, 0, facts{"0.2500", "0.8000", "2", "0s"}},
		// The end is marked: instant questions know at once, rates look back
		// and fade.
		{"target gone", 31, func(i int) string {
			if i == 30 {
				return ""
			}
			return steady(i)
		}, 15 * time.Second, facts{"0.2500", "0.7400", "none", "none"}},
		{"target gone for long", 31, func(i int) string {
			if i == 30 {
				return ""
			}
			return steady(i)
		}, 6 * time.Minute, facts{"0.0000", "none", "none", "none"}},
		{"one upstream gone", 31, func(i int) string {
			if i == 30 {
				return scrapeText(4*i, -1, i, -1)
			}
			return steady(i)
		}, 0, facts{"0.2500", "0.8000", "1", "0s"}},
		// No end is marked, as after a kill: the dead look alive, but old.
		{"no scrape since four minutes", 30, steady, 4 * time.Minute, facts{"0.2500", "0.1800", "2", "4m0s"}},
		{"no scrape since six minutes", 30, steady, 6 * time.Minute, facts{"0.0000", "none", "none", "none"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, _ := opened(t, t.TempDir())
			start := someTime()
			last := start
			for i := range tc.scrapes {
				last = start.Add(time.Duration(i) * step)
				appendAt(t, s, last, tc.text(i))
			}
			if got := factsAt(t, s, last.Add(tc.after)); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

// Why the expression is what it is: each part left out goes wrong somewhere.
func TestWhatTheSimplerRatiosAnswer(t *testing.T) {
	s, _ := opened(t, t.TempDir())
	start := someTime()
	last := start
	for i := range 30 {
		last = start.Add(time.Duration(i) * step)
		appendAt(t, s, last, scrapeText(100, 100, 50, 0))
	}
	for query, want := range map[string]string{
		`sum(rate(ai_fallback_triggered_total[5m])) / sum(rate(ai_model_requests_total[5m])) or vector(0)`: "NaN",
		`sum(rate(nothing_total[5m])) / sum(rate(ai_model_requests_total[5m]))`:                            "none",
		// > binds to vector(0), and the ratio, here 0.5, comes through as it is.
		`sum(ai_fallback_triggered_total) / (sum(ai_model_requests_total) > 0) * 2 or vector(0) > 0.9`:   "0.5",
		`(sum(ai_fallback_triggered_total) / (sum(ai_model_requests_total) > 0) * 2 or vector(0)) > 0.9`: "none",
		ratioQuery: "0",
	} {
		if got := ask(t, s, query, last); got != want {
			t.Errorf("%s is %s, want %s", query, got, want)
		}
	}
}

// A window of four scrapes or more has an answer at every moment; one of two
// has none or one, as it happens.
func TestRateNeedsFourScrapesInItsWindow(t *testing.T) {
	s, _ := opened(t, t.TempDir())
	start := someTime()
	for i := range 40 {
		appendAt(t, s, start.Add(time.Duration(i)*step), scrapeText(4*i, 8*i, i, 2*i))
	}
	gaps := func(window string) int {
		n := 0
		for i := range 120 {
			at := start.Add(5*time.Minute + time.Duration(i)*time.Second + 500*time.Millisecond)
			if ask(t, s, `sum(rate(ai_model_requests_total[`+window+`]))`, at) == "none" {
				n++
			}
		}
		return n
	}
	if n := gaps("1m"); n != 0 {
		t.Errorf("%d of 120 questions over 1m have no answer", n)
	}
	if n := gaps("16s"); n == 0 {
		t.Error("a window of little more than one scrape always has an answer: this test proves nothing")
	}
}
