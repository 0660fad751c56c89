package gateway

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestAnAlarmThatGoesOnIsSaidNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a alarms
		var said []string
		for range 1000 { // one each 25 ms
			if text, ok := a.due("strange"); ok {
				said = append(said, text)
			}
			time.Sleep(25 * time.Millisecond)
		}
		if want := "[strange strange (and 399 times more since the last such line) strange (and 399 times more since the last such line)]"; fmt.Sprint(said) != want {
			t.Errorf("said %q", said)
		}
		if text, ok := a.due("something else"); !ok || text != "something else" {
			t.Errorf("another alarm meanwhile: %q, %v", text, ok)
		}
		for i := range 10 * alarmTexts {
			if _, ok := a.due(fmt.Sprint(i)); !ok {
				t.Errorf("alarm %d was not said", i)
			}
			if len(a.said) > alarmTexts {
				t.Fatalf("%d texts are remembered", len(a.said))
			}
		}
	})
}
