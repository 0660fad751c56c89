package gateway

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"failback/internal/bubble"
)

func TestAnAlarmThatGoesOnIsSaidNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a alarms
		var said []string
		for range 1000 { // one each 25 ms
			if text, ok := a.due("strange"); ok {
				said = append(said, text)
			}
			bubble.Sleep(25 * time.Millisecond)
		}
		if want := "[strange strange (and 399 times more since the last such line) strange (and 399 times more since the last such line)]"; fmt.Sprint(said) != want {
			t.Errorf("said %q", said)
		}
		if text, ok := a.due("something else"); !ok || text != "something else" {
			t.Errorf("another alarm meanwhile: %q, %v", text, ok)
		}
	})
}

// TEL-07: alarms that differ each time are bounded in number and length, too, and
// what was left out is said.
func TestAlarmsOfManyTextsAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a alarms
		said, bytes := 0, 0
		raise := func(text string) (string, bool) {
			text, ok := a.due(text)
			if ok {
				said++
				bytes += len(text)
			}
			if len(a.said) > alarmTexts {
				t.Fatalf("%d texts are remembered", len(a.said))
			}
			return text, ok
		}
		huge := strings.Repeat("ü\n\t", 1<<16)
		for i := range 10_000 { // over 100 s
			raise(fmt.Sprint(i) + huge)
			bubble.Sleep(10 * time.Millisecond)
		}
		if most := alarmTexts + 100 + 1; said > most || said < 100 {
			t.Errorf("%d of 10 000 are said, not at most %d", said, most)
		}
		if most := said * (alarmRoom + 100); bytes > most {
			t.Errorf("they are %d bytes, more than %d", bytes, most)
		}
		bubble.Sleep(4 * alarmPace)
		text, ok := raise("after it")
		if !ok || !strings.HasPrefix(text, "after it (") || !strings.Contains(text, "other alarms were left out before)") {
			t.Errorf("%q, %v", text, ok)
		}
		if text, ok := raise("then"); !ok || text != "then" {
			t.Errorf("%q, %v", text, ok)
		}
		if text, _ := raise("a\r\nb\tc" + strings.Repeat("€", 1<<12)); strings.ContainsAny(text, "\r\n\t") || !strings.HasPrefix(text, "a; b c€") || !strings.HasSuffix(text, "€…") {
			t.Errorf("%q", text)
		}
	})
}
