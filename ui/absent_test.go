package ui

import (
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"failback/gateway/operator/api"
	"failback/ui/text"
)

// fill gives v all that a gateway may say, with nothing said of it: each list
// has an element, and each pointer leads somewhere. Words come from say.
func fill(v reflect.Value, depth int, say string) {
	if depth == 0 || v.Type() == reflect.TypeFor[time.Time]() {
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(v.Field(i), depth-1, say)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), depth-1, say)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), depth-1, say)
	case reflect.String:
		v.SetString(say)
	case reflect.Bool:
		v.SetBool(say != "")
	}
}

var daysOf = regexp.MustCompile(`\b(\d+)d\b`)

// noOldAge fails where s has an age that no program reaches.
func noOldAge(t *testing.T, what, s string) {
	t.Helper()
	for _, m := range daysOf.FindAllStringSubmatch(s, -1) {
		if n, err := strconv.Atoi(m[1]); err != nil || n > 3650 {
			t.Errorf("%s says %s:\n%s", what, m[0], s)
			return
		}
	}
}

// What a gateway does not say is nowhere taken for a time long ago, nor for a
// share of 0%.
func TestAbsentIsUnknown(t *testing.T) {
	for _, say := range []string{"", "x", api.Degraded, "open", "text"} {
		for _, w := range []int{60, 100, 160} {
			t.Run(fmt.Sprintf("%q/%d", say, w), func(t *testing.T) {
				inBubble(t, func(m *model) {}, func(t *testing.T, m *model, _ *recorder) {
					var s api.State
					var e api.Event
					var d api.Decision
					fill(reflect.ValueOf(&s).Elem(), 6, say)
					fill(reflect.ValueOf(&e).Elem(), 5, say)
					fill(reflect.ValueOf(&d).Elem(), 5, say)
					s.Passthrough = nil
					for i := range s.Incidents {
						s.Incidents[i].ID, s.Incidents[i].State = "i", api.IncidentOpen
					}
					noOldAge(t, "the text", text.Status(&s))
					m.width, m.height = w, 40
					give(m, s, []api.Event{e}, []api.Decision{d})
					for _, k := range []string{"o", "b", "e", "d", "m", "w", "$", "!", "?", "l", "i", "0", "1"} {
						keys(m, "esc", k)
						noOldAge(t, "behind "+k, screenOf(m))
						for _, opens := range []string{"enter", ">", "<", "P"} {
							keys(m, opens)
							noOldAge(t, "behind "+k+" "+opens, screenOf(m))
							keys(m, "esc", "esc")
						}
					}
				})
			})
		}
	}
	inBubble(t, func(m *model) {}, func(t *testing.T, m *model, _ *recorder) {
		m.width, m.height = 160, 40
		give(m, api.State{Incidents: []api.IncidentHead{{ID: "i", State: api.IncidentOpen}}, Upstreams: []api.Upstream{{Name: "one"}}}, nil, nil)
		for _, k := range []string{"o", "enter", "esc", "b"} {
			keys(m, k)
			got := screenOf(m)
			if strings.Contains(got, "share below") || strings.Contains(got, " by ,") || regexp.MustCompile(`((SHARE|share) +|> one .* )0%`).MatchString(got) {
				t.Errorf("%s concludes from nothing:\n%s", k, got)
			}
			if !strings.Contains(got, "??") {
				t.Errorf("%s does not say that it is unknown:\n%s", k, got)
			}
		}
		keys(m, "esc", "o")
		if m.noRaise() == "" {
			t.Error("a step from an unknown share is offered")
		}
	})
}
