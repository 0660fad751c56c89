package ui

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"

	"failback/gateway/operator/api"
	"failback/internal/bubble"
	"failback/sources"
)

// line is the row of the screen that begins with head.
func lineOf(t *testing.T, m *model, head string) string {
	t.Helper()
	for l := range strings.SplitSeq(screenOf(m), "\n") {
		if strings.HasPrefix(l, " "+head) {
			return l
		}
	}
	t.Fatalf("no row begins with %q:\n%s", head, screenOf(m))
	return ""
}

// Each state of the fallback ratio reads differently, at each width at which
// the row is there.
func TestRatioStates(t *testing.T) {
	states := []string{"ratio-first", "ratio-idle", "ratio-none", "ratio-unknown", "ratio-zero", "prom-ageing", "incident"}
	for _, w := range []int{40, 60, 80, 100, 200} {
		seen := make(map[string]string)
		for _, name := range states {
			inSituation(t, name, w, 30, func(t *testing.T, m *model) {
				l := lineOf(t, m, "FALLBACK")
				l = strings.TrimSpace(strings.TrimPrefix(l, " FALLBACK"))
				word, _, _ := strings.Cut(l, "  ")
				word, _, _ = strings.Cut(word, " (")
				if other := seen[word]; other != "" {
					t.Errorf("%d columns: %s and %s both read %q", w, name, other, word)
				}
				seen[word] = name
			})
		}
	}
}

// What the gateway counted itself over a minute stays where Prometheus has no
// value, and is never taken for that.
func TestGatewaysOwnRatio(t *testing.T) {
	for _, name := range []string{"prom-down", "prom-off", "prom-stands-still", "ratio-idle", "ratio-none", "ratio-waiting", "ratio-unknown", "ratio-first"} {
		inSituation(t, name, 100, 30, func(t *testing.T, m *model) {
			l := lineOf(t, m, "FALLBACK")
			if !strings.Contains(l, "1m: ") && !strings.Contains(l, "(1m ") {
				t.Errorf("%s: %q", name, l)
			}
			if strings.Contains(l, "over limit") {
				t.Errorf("%s: another number is held against the limit: %q", name, l)
			}
		})
	}
}

// The limit is held against the ratio, and since when is said as far as it is
// known.
func TestOverLimit(t *testing.T) {
	since := func(m *model, ago time.Duration) time.Time { return m.now.Truncate(time.Minute).Add(-ago) }
	for _, tt := range []struct {
		name  string
		ratio float64
		limit float64
		over  func(m *model) sources.Over
		want  string
		not   string
	}{
		{"over", 0.381, 0.02, func(m *model) sources.Over {
			return sources.Over{State: sources.OverSince, Since: since(m, 25*time.Minute)}
		}, "38.1% 5m  over limit 2% since 03:47Z (25m)", ""},
		{"at the limit", 0.02, 0.02, func(*model) sources.Over { return sources.Over{State: sources.OverNot} }, "2.0% 5m  limit 2%", "over"},
		{"under, and the history is behind", 0.01, 0.02, func(m *model) sources.Over {
			return sources.Over{State: sources.OverSince, Since: since(m, time.Minute)}
		}, "1.0% 5m  limit 2%", "over"},
		{"over just now", 0.03, 0.025, func(*model) sources.Over { return sources.Over{State: sources.OverNot} }, "3.0% 5m  over limit 2.5% ", "since"},
		{"not known since when", 0.03, 0.02, func(*model) sources.Over { return sources.Over{} }, "3.0% 5m  over limit 2% ", "since"},
		{"longer", 0.03, 0.02, func(*model) sources.Over { return sources.Over{State: sources.OverLonger} }, "over limit 2% for longer than 6h", "since"},
		{"blind", 0.03, 0.02, func(m *model) sources.Over {
			return sources.Over{State: sources.OverSince, Since: since(m, 8*time.Minute), Blind: true}
		}, "over limit 2% since 04:04Z or before (8m31s+)", ""},
		{"about", 0.03, 0.02, func(m *model) sources.Over {
			return sources.Over{State: sources.OverSince, Since: since(m, 8*time.Minute), Within: time.Minute}
		}, "over limit 2% since about 04:04Z (8m31s)", ""},
		{"after a gap", 0.03, 0.02, func(m *model) sources.Over {
			return sources.Over{State: sources.OverSince, Since: since(m, 8*time.Minute), Within: 4 * time.Minute}
		}, "over limit 2% since 04:04Z or up to 4m before (8m31s+)", ""},
		{"a limit of nothing", 0, 0, func(*model) sources.Over { return sources.Over{State: sources.OverNot} }, "0.0% 5m  limit 0%", "over"},
	} {
		inSituation(t, "incident", 100, 30, func(t *testing.T, m *model) {
			s := incidentState()
			s.Limit = &api.Limit{FallbackRatio: tt.limit}
			give(m, s, nil, nil)
			k := incidentNumbers()
			k.overview.Ratio, k.history.Over = read(tt.ratio), tt.over(m)
			answerKept(m, k)
			l := lineOf(t, m, "FALLBACK")
			if !strings.Contains(l, tt.want) || tt.not != "" && strings.Contains(l, tt.not) {
				t.Errorf("%s: %q", tt.name, l)
			}
		})
	}
	inSituation(t, "no-limit", 100, 30, func(t *testing.T, m *model) {
		if l := lineOf(t, m, "FALLBACK"); !strings.Contains(l, "no limit set") || strings.Contains(l, "over") {
			t.Errorf("a limit is invented: %q", l)
		}
	})
}

// What was shown under the limit is not over it afterwards, whatever a history
// said before; and a history is asked as soon as the limit is crossed.
func TestOverLimitIsNotWhatWasShownUnderIt(t *testing.T) {
	inSituation(t, "incident", 100, 30, func(t *testing.T, m *model) {
		s := incidentState()
		s.Limit = &api.Limit{FallbackRatio: 0.02}
		k := incidentNumbers()
		k.history.Over = sources.Over{State: sources.OverSince, Since: m.now.Add(-6 * time.Minute), Blind: true}
		show := func(ratio float64) string {
			bubble.Sleep(5 * time.Second)
			give(m, s, nil, nil)
			k.overview.Ratio = read(ratio)
			m.ask.history = m.now.Add(time.Hour)
			m.Update(metricsMsg{m.ask.epoch, k.Overview(context.Background(), ask(&m.live.metrics, time.Now()))})
			return lineOf(t, m, "FALLBACK")
		}
		answerKept(m, k)
		for _, c := range []struct {
			ratio     float64
			want, not string
			asked     bool
		}{
			{0.03, "over limit 2% since 04:06Z or before (6m", "", false},
			{0.019, "1.9% 5m  limit 2%", "over", true},
			{0.03, "3.0% 5m  over limit 2% ", "since", true},
			{0.03, "3.0% 5m  over limit 2% ", "since", false},
		} {
			l := show(c.ratio)
			if asked := !m.ask.history.After(m.now); !strings.Contains(l, c.want) || c.not != "" && strings.Contains(l, c.not) || asked != c.asked {
				t.Errorf("%g: history asked %t, %q", c.ratio, asked, l)
			}
		}
		k.history.Over = sources.Over{State: sources.OverSince, Since: time.Now()}
		answerKept(m, k)
		if l := lineOf(t, m, "FALLBACK"); !strings.Contains(l, "over limit 2% since 04:12Z (0s)") {
			t.Errorf("the next history: %q", l)
		}
	})
}

// A history that nobody renewed says nothing of now.
func TestOldHistory(t *testing.T) {
	inSituation(t, "incident", 100, 30, func(t *testing.T, m *model) {
		bubble.Sleep(7 * time.Minute)
		give(m, incidentState(), nil, nil)
		k := incidentNumbers()
		m.Update(metricsMsg{m.ask.epoch, k.Overview(context.Background(), ask(&m.live.metrics, time.Now()))})
		l := lineOf(t, m, "FALLBACK")
		if !strings.Contains(l, "38.1% 5m  over limit 2% ") || strings.Contains(l, "since") || !strings.Contains(l, "30m ??") {
			t.Errorf("%q", l)
		}
	})
}

// Zero, a little, idle and nothing look different, in each set of glyphs.
func TestSpark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin()
		m := testModel(100, 30)
		points := sparkOf("0~159i ")
		for _, ascii := range []bool{false, true} {
			m.th.ascii = ascii
			got := []rune(m.spark(points))
			if len(got) != len(points) {
				t.Fatalf("%d points are %d columns: %q", len(points), len(got), string(got))
			}
			seen := make(map[rune]bool)
			for i, r := range got {
				if seen[r] && i != 4 { // 20% and 36% may
					t.Errorf("ascii %t: two states look like %q in %q", ascii, r, string(got))
				}
				seen[r] = true
				if ascii && r > 0x7e {
					t.Errorf("%q is not ASCII", r)
				}
			}
		}
		if a, b := m.spark([]sources.Point{{State: api.StateValue, Value: 1}}), m.spark([]sources.Point{{State: api.StateValue, Value: 1e9}}); a != b {
			t.Errorf("beyond all: %q, %q", a, b)
		}
	})
}

// A history of before there was a request does not contradict the ratio beside it.
func TestSparkIsWaitedFor(t *testing.T) {
	inSituation(t, "calm", 100, 30, func(t *testing.T, m *model) {
		bubble.Sleep(time.Minute)
		give(m, *m.live.state.Value(), nil, nil)
		answerKept(m, calmNumbers())
		h := calmNumbers().History(context.Background(), ask(&m.live.history, m.now), nil)
		h.Value.Spark = sparkOf(strings.Repeat(" ", 30))
		m.Update(historyMsg{m.ask.epoch, h})
		if got := lineOf(t, m, "FALLBACK"); !strings.Contains(got, "30m ...") || strings.Contains(got, "none") {
			t.Errorf("%q", got)
		}
	})
}

// The ratio may have a value before the history is asked for again: that is then the
// spark's newest, and what was idle is not said to be so still.
func TestSparkHasTheNewestValue(t *testing.T) {
	inSituation(t, "calm", 100, 30, func(t *testing.T, m *model) {
		give := func(points string, ratio float64) string {
			t.Helper()
			bubble.Sleep(time.Minute)
			give(m, *m.live.state.Value(), nil, nil)
			n := calmNumbers()
			n.overview.Ratio = read(ratio)
			answerKept(m, n)
			h := n.History(context.Background(), ask(&m.live.history, m.now), nil)
			h.Value.Spark = sparkOf(points)
			m.Update(historyMsg{m.ask.epoch, h})
			return lineOf(t, m, "FALLBACK")
		}
		idle := strings.Repeat("i", 30)
		for points, want := range map[string]string{
			idle:            "30m " + strings.Repeat(sparkIdle, 29) + "▇ ",
			idle[2:] + "0i": "30m " + strings.Repeat(sparkIdle, 27) + "▁" + sparkIdle + "▇ ",
			idle[1:] + "0":  "30m " + strings.Repeat(sparkIdle, 29) + "▁ ",
		} {
			if got := give(points, 0.38); !strings.Contains(got, want) || strings.Contains(got, "idle") {
				t.Errorf("%s: %q lacks %q", points, got, want)
			}
		}
	})
}

// Late answers, and answers of a source that is asked no more, are dropped.
func TestLateNumbers(t *testing.T) {
	inSituation(t, "calm", 100, 30, func(t *testing.T, m *model) {
		old, _ := m.live.metrics.Ask(m.now)
		oldHistory, _ := m.live.history.Ask(m.now)
		oldLoki, _ := m.live.loki.Ask(m.now)
		epoch := m.ask.epoch
		bubble.Sleep(100 * time.Second)
		give(m, *m.live.state.Value(), nil, nil)
		answerKept(m, calmNumbers())
		want := lineOf(t, m, "FALLBACK") + lineOf(t, m, "fresh:")
		late := incidentNumbers()
		late.lines.err = errors.New("late")
		ctx := context.Background()
		give := func(epoch int, a, b, c uint64) {
			m.Update(metricsMsg{epoch, late.Overview(ctx, a)})
			m.Update(historyMsg{epoch, late.History(ctx, b, nil)})
			m.Update(lokiMsg{epoch, late.lines.Query(ctx, c, sources.LogQuery{})})
		}
		give(epoch, old, oldHistory, oldLoki)
		if got := lineOf(t, m, "FALLBACK") + lineOf(t, m, "fresh:"); got != want {
			t.Errorf("a late answer was taken:\n%s\n%s", want, got)
		}
		// The gateway names another source, which has answered nothing yet.
		s := *m.live.state.Value()
		s.Sources.Prometheus.URL = "https://other.example"
		m.connect(s.Sources)
		if m.ask.epoch == epoch || m.live.metrics.Value() != nil || m.live.history.Value() != nil || m.live.loki.Value() != nil {
			t.Fatal("what another source said is kept")
		}
		a, b, c := ask(&m.live.metrics, m.now), ask(&m.live.history, m.now), ask(&m.live.loki, m.now)
		give(epoch, a, b, c)
		if m.live.metrics.Value() != nil || m.live.history.Value() != nil || m.live.loki.Err() != nil {
			t.Error("the answer of a source that is asked no more was taken")
		}
		give(m.ask.epoch, a, b, c)
		if m.live.metrics.Value() == nil || m.live.history.Value() == nil || m.live.loki.Err() == nil {
			t.Error("the answer of the source that is asked was not taken")
		}
		// The same sources again are no others.
		epoch = m.ask.epoch
		m.connect(s.Sources)
		if m.ask.epoch != epoch {
			t.Error("the same sources are connected anew")
		}
	})
}

// Nothing of a frozen screen moves but its first two rows, and the ages of what
// it shows.
func TestFrozenNumbers(t *testing.T) {
	for _, ks := range [][]string{nil, {"b"}, {"enter"}} {
		inSituation(t, "incident", 100, 30, func(t *testing.T, m *model) {
			keys(m, append(ks, "f")...)
			below := func() string {
				lines := strings.Split(screenOf(m), "\n")
				return regexp.MustCompile(` +[0-9]+s old`).ReplaceAllString(strings.Join(lines[2:len(lines)-1], "\n"), " old")
			}
			before := below()
			bubble.Sleep(40 * time.Second)
			calm(m)
			k := calmNumbers()
			k.err = errors.New("gone")
			answerKept(m, k)
			if got := below(); got != before {
				t.Errorf("%q: a frozen screen moved:\n%s", ks, diff(before, got))
			}
			keys(m, "f")
			if below() == before {
				t.Errorf("%q: it stays frozen", ks)
			}
		})
	}
}

// What is due is asked, once at a time, and again when it is due again.
func TestAskingNumbers(t *testing.T) {
	inSituation(t, "calm", 100, 30, func(t *testing.T, m *model) {
		due := func() (n int) {
			m.now = time.Now()
			for _, cmd := range []tea.Cmd{m.askMetrics(), m.askHistory(), m.askLoki()} {
				if cmd != nil {
					n++
					m.Update(cmd())
				}
			}
			return n
		}
		if n := due(); n != 3 {
			t.Errorf("at first %d of 3 are asked", n)
		}
		if n := due(); n != 0 {
			t.Errorf("%d are asked at once again", n)
		}
		bubble.Sleep(5 * time.Second)
		if n := due(); n != 1 { // three times in 15 s
			t.Errorf("after 5 s %d are asked", n)
		}
		bubble.Sleep(25 * time.Second)
		if n := due(); n != 3 {
			t.Errorf("after 30 s %d are asked", n)
		}
		// Another limit is another question.
		s := *m.live.state.Value()
		s.Limit = &api.Limit{FallbackRatio: 0.5}
		give(m, s, nil, nil)
		if m.askHistory() == nil {
			t.Error("another limit waits for the next half minute")
		}
	})
}

// A query that fails or succeeds against what the last probe said has Loki
// probed at once; one that Loki refuses says nothing of Loki.
func TestHeardLoki(t *testing.T) {
	for _, tt := range []struct {
		name  string
		err   error
		probe bool
	}{
		{"an answer", nil, false},
		{"a failure", remoteError(503, "no quorum", nil), true},
		{"a refusal", remoteError(400, "parse error at line 1", nil), false},
	} {
		inSituation(t, "calm", 100, 30, func(t *testing.T, m *model) {
			m.ask.probe = m.now.Add(time.Minute)
			m.heardLoki(tt.err)
			if got := m.askLoki() != nil; got != tt.probe {
				t.Errorf("%s: probed %t", tt.name, got)
			}
		})
	}
	inSituation(t, "prom-down", 100, 30, func(t *testing.T, m *model) {
		m.heardLoki(nil)
		if m.askLoki() == nil {
			t.Error("an answer while it is said not to answer: not probed")
		}
	})
}

// The strip tells what is wrong with each source, in words, and an upstream of
// wide windows loses no reason.
func TestFreshness(t *testing.T) {
	for _, tt := range []struct {
		situation string
		w         int
		want      []string
	}{
		{"calm", 100, []string{"gateway 0s ok | prom 4s ok (every 15s) | loki ok"}},
		{"prom-down", 200, []string{"prom NO ANSWER 2m10s: connection refused by the gateway, last good 04:12:31Z", "loki NO ANSWER 2m10s: 503: no quorum, last good 04:12:31Z"}},
		{"prom-down", 80, []string{"prom NO ANSWER 2m10s", "loki NO ANSWER 2m10s (503)"}},
		{"prom-down", 40, []string{"gateway 0s ok", "prom ??", "loki ??"}},
		{"prom-off", 200, []string{"prom OFF: data/metrics: no space left on device", "loki OFF: data/log: permission denied"}},
		{"prom-stands-still", 100, []string{"prom answers, newest sample 2m04s old"}},
		{"prom-partial", 200, []string{"prom 4s ok, partial: store prom-2 did not answer (+1 more)", "loki answers, has no line of the last 5m"}},
		{"ratio-none", 100, []string{"prom answers, has no series of this gateway"}},
		{"all-down", 100, []string{"gateway NO ANSWER 2m10s: connection refused, last good 04:12:31Z | prom ?? | loki ??"}},
		{"ratio-first", 100, []string{"prom ... 0s | loki ... 0s"}},
	} {
		inSituation(t, tt.situation, tt.w, 30, func(t *testing.T, m *model) {
			got := strings.Split(screenOf(m), "\n")[1]
			for _, want := range tt.want {
				if !strings.Contains(got, want) {
					t.Errorf("%s at %d: %q is missing in %q", tt.situation, tt.w, want, got)
				}
			}
		})
	}
	inSituation(t, "calm", 160, 30, func(t *testing.T, m *model) {
		k := calmNumbers()
		k.lines.none = true
		s := *m.live.state.Value()
		s.Traffic.RPS = idle()
		give(m, s, nil, nil)
		answerKept(m, k)
		if got := lineOf(t, m, "fresh:"); !strings.Contains(got, "loki idle") {
			t.Errorf("no line without a request is no fault: %q", got)
		}
		k.lines.err = remoteError(400, "parse error at line 1, col 2", nil)
		answerKept(m, k)
		if got := lineOf(t, m, "fresh:"); !strings.Contains(got, "loki REFUSES the selector: 400: parse error at line 1, col 2") {
			t.Errorf("a selector that Loki refuses: %q", got)
		}
		// Another host's clock.
		k.addr = "https://prom.example"
		a := k.Overview(context.Background(), ask(&m.live.metrics, m.now))
		a.Clock.At = a.Clock.At.Add(7 * time.Second)
		m.Update(metricsMsg{m.ask.epoch, a})
		if got := lineOf(t, m, "fresh:"); !strings.Contains(got, "loki REFUSES") {
			t.Errorf("%q", got)
		}
		m.ask.metrics = k
		if got := lineOf(t, m, "fresh:"); !strings.Contains(got, "its clock is 7s ahead of this host's") {
			t.Errorf("a clock that is wrong is not said: %q", got)
		}
	})
}

// On the step table j and k go to the next upstream, past any filter, and the
// writing keys mean the one that is shown.
func TestFailbackKeys(t *testing.T) {
	inBubble(t, func(m *model) { comeback(m) }, func(t *testing.T, m *model, r *recorder) {
		typed(m, "/", "v", "e", "r", "t", "e", "x", "enter", "b")
		if m.screen != failback || m.selected != "vertex-us-central1" {
			t.Fatalf("on %s of %s", m.screen, m.selected)
		}
		if typed(m, "k"); m.selected != "anthropic-us-east-1" {
			t.Errorf("k leads to %s", m.selected)
		}
		typed(m, "k", "k")
		m.Update(tea.WindowSizeMsg{Width: 60, Height: 16})
		if top := screenOf(m); !strings.Contains(top, " 1-10 of ") || !strings.Contains(top, ", ctrl+d") {
			t.Errorf("it names no key that scrolls:\n%s", top)
		}
		if typed(m, "G"); m.selected != "anthropic-us-east-1" || !strings.Contains(screenOf(m), ", ctrl+u") || m.scroll == 0 {
			t.Errorf("G leads to line %d of %s", m.scroll, m.selected)
		}
		if typed(m, "g"); m.selected != "anthropic-us-east-1" || m.scroll != 0 {
			t.Errorf("g leads to line %d of %s", m.scroll, m.selected)
		}
		m.Update(tea.WindowSizeMsg{Width: 60, Height: 16})
		typed(m, "ctrl+d")
		if m.scroll == 0 || m.selected != "anthropic-us-east-1" {
			t.Errorf("ctrl+d: scroll %d, %s", m.scroll, m.selected)
		}
		if typed(m, "j"); m.scroll != 0 {
			t.Error("the next upstream is shown from the middle")
		}
		m.Update(tea.WindowSizeMsg{Width: 100, Height: 30})
		typed(m, "k", ">")
		if m.dialog != nil || !strings.Contains(m.message.text, "read-only") {
			t.Fatalf("> works unarmed, or does not say why not: %q", m.message.text)
		}
		typed(m, "W", ">")
		if m.dialog == nil || m.dialog.upstream != "anthropic-us-east-1" || m.dialog.to != 75 {
			t.Fatalf("the dialog is %+v", m.dialog)
		}
		typed(m, "esc", "<")
		if m.dialog == nil || m.dialog.to != 5 {
			t.Fatalf("the dialog is %+v", m.dialog)
		}
		typed(m, "y")
		if len(r.sent) != 1 || *r.sent[0].Share != 5 {
			t.Errorf("sent %+v", r.sent)
		}
		typed(m, "u")
		if m.dialog == nil || !m.dialog.undo || m.dialog.upstream != "anthropic-us-east-1" {
			t.Errorf("u: %+v, said %q", m.dialog, m.message.text)
		}
	})
}

// The table marks the step in force, and none of its cells claims evidence.
func TestStepRows(t *testing.T) {
	state := baseState()
	f := &state.Failback
	no := func(int) string { return "" }
	for _, tt := range []struct {
		share int
		want  string
	}{
		{0, "-:0* 1:5+ 2:25 3:75 4:100"},
		{5, "1:5* 2:25+ 3:75 4:100"},
		{25, "1:5 2:25* 3:75+ 4:100"},
		{100, "1:5 2:25 3:75 4:100*"},
		{50, "1:5 2:25 -:50* 3:75+ 4:100"},
	} {
		var got []string
		for _, r := range stepRows(&state, &api.Upstream{Share: tt.share}, no, "3m") {
			s := r.number + ":" + strings.TrimSuffix(percent(r.share), "%")
			if r.mark {
				s += "*"
			}
			if r.next {
				s += "+"
			}
			got = append(got, s)
		}
		if s := strings.Join(got, " "); s != tt.want {
			t.Errorf("share %d: %s, want %s", tt.share, s, tt.want)
		}
	}
	// Other steps than those that there are, and none at all.
	f.Steps = []api.FailbackStep{{Share: 10, ObserveSeconds: 90}, {Share: 100}}
	if rows := stepRows(&state, &api.Upstream{Share: 25}, no, "3m"); len(rows) != 3 || !rows[1].mark || rows[1].number != "-" || rows[0].window != "1m30s" {
		t.Errorf("%+v", rows)
	}
	f.Steps = nil
	if rows := stepRows(&state, &api.Upstream{Share: 100}, no, "3m"); len(rows) != 1 || !rows[0].mark {
		t.Errorf("%+v", rows)
	}
}

// How long a step was held is said only where the changes tell.
func TestHeldBefore(t *testing.T) {
	inSituation(t, "failback", 100, 30, func(t *testing.T, m *model) {
		for share, want := range map[int]string{5: "10m", 25: "", 75: "", 0: "6m08s", 100: ""} {
			if got := heldBefore(&m.live, "anthropic-us-east-1", share); got != want {
				t.Errorf("%d%%: held %q", share, got)
			}
		}
		if got := heldBefore(&m.live, "vertex-us-central1", 5); got != "" {
			t.Errorf("another's: %q", got)
		}
	})
}

// The last step is told by the state where the changes of this gateway's life
// do not tell it.
func TestStepFromBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin()
		m := testModel(100, 30)
		s := incidentState()
		give(m, s, nil, nil)
		keys(m, "b")
		if got := screenOf(m); !strings.Contains(got, `ana    share 0%  "5xx since 03:48" rev 131`) {
			t.Errorf("who lowered it is gone:\n%s", got)
		}
	})
}

// TestHostileNumbers puts hostile text into what Prometheus and Loki say, and
// into the names they say it of.
func TestHostileNumbers(t *testing.T) {
	for _, h := range hostile {
		synctest.Test(t, func(t *testing.T) {
			begin()
			m := testModel(100, 30)
			s := incidentState()
			s.Upstreams[0].Name, s.Upstreams[0].PrimaryOf, s.Upstreams[0].StateWhy, s.Upstreams[0].Health = h, []string{h, "x" + h}, h, h
			s.Upstreams[0].Breakers[0].Capability = h
			s.Failback.Owner, s.Failback.Advance = h, h
			e := api.Event{Seq: 1, Event: "traffic_step", Time: time.Now(), Provider: h, From: h, To: h, By: h, Why: h, Reason: h, Revision: 2}
			give(m, s, []api.Event{e}, nil)
			k := incidentNumbers()
			k.overview.Ratio = readAs(sources.StateUnknown, h)
			k.overview.Warnings, k.history.Warnings = []string{h, "x" + h}, []string{h}
			k.overview.PerUpstream = []sources.RatioRow{{Name: h, Reading: readAs(api.StateNone, h)}}
			k.overview.PerModel = []sources.RatioRow{{Name: h, Reading: read(0.3)}, {Name: "x" + h, Reading: readAs(api.StateIdle, h)}}
			keep(m, k)
			look := func() {
				t.Helper()
				for _, ks := range [][]string{nil, {"enter"}, {"esc", "b"}, {"!"}, {"esc", "esc"}} {
					keys(m, ks...)
					for _, size := range []struct{ w, h int }{{100, 30}, {80, 24}, {40, 12}, {20, 5}, {200, 60}} {
						m.Update(tea.WindowSizeMsg{Width: size.w, Height: size.h})
						harmless(t, m, size.w, size.h)
					}
				}
			}
			look()
			k.err, k.lines.err = errors.New(h), remoteError(500, h, nil)
			answerKept(m, k)
			look()
			s.Sources.Prometheus.Error, s.Sources.Loki.Error = h, h
			give(m, s, nil, nil)
			look()
		})
	}
}

// What a Loki lacks is said as long as it answers, whatever its own keeper says;
// where that does not answer either, it is off.
func TestALokiThatIsNotWhole(t *testing.T) {
	inSituation(t, "calm", 160, 30, func(t *testing.T, m *model) {
		says := func(err error, warnings ...string) string {
			now := time.Now()
			a := sources.Answer[sources.LogAnswer]{Gen: ask(&m.live.loki, now), Clock: sources.Clock{Sent: now, Received: now, At: now}}
			if a.Err = err; err == nil {
				a.Value = &sources.LogAnswer{Rows: []sources.LogRow{{Line: "{}"}}, Warnings: warnings}
			}
			m.Update(lokiMsg{m.ask.epoch, a})
			return m.lokiVital()[0].row.text()
		}
		if got := says(nil, "one of three did not answer", "b"); got != "loki ok, partial: one of three did not answer (+1 more)" {
			t.Errorf("partial: %q", got)
		}
		m.ask.from.Loki.Error = "data/log: permission denied"
		if got := says(nil); got != "loki ok" {
			t.Errorf("it answers all the same: %q", got)
		}
		if got := says(errors.New("no")); got != "loki OFF: data/log: permission denied" {
			t.Errorf("off: %q", got)
		}
	})
}

// The age of a frozen table goes on.
func TestAFrozenStepTableAges(t *testing.T) {
	inSituation(t, "failback-down", 100, 40, func(t *testing.T, m *model) {
		shows(t, m, ", 12s ago: ")
		keys(m, "f")
		bubble.Sleep(10 * time.Second)
		m.Update(tickMsg{})
		shows(t, m, ", 22s ago: ", "FROZEN")
	})
}
