package ui

import (
	"regexp"
	"strings"
	"testing"

	"failback/runbooks"
)

// The keys that lead to a screen from the runbook's.
const leading = "odleimw$b!?"

var (
	onScreen = regexp.MustCompile(`\bon the ([a-z]+) screen\b`)
	bareKey  = regexp.MustCompile(`\b(?:[Pp]ress|then|key) ([b-zB-HJ-Z<>/$])(?:[ ,.;:]|$)|\[[^\]]\]`)
)

// sentenceFaults says what of a sentence's keys cannot be pressed as it says
// them, led being where each leading key leads.
func sentenceFaults(sentence string, led map[string]string) (faults []string) {
	if m := bareKey.FindString(sentence); m != "" {
		faults = append(faults, "a key is not written as code: "+m)
	}
	said := ""
	if m := onScreen.FindStringSubmatch(sentence); m != nil {
		if said = m[1]; said == "log" {
			said = logs.String()
		}
	}
	here := ""
	for _, ref := range runbooks.KeysIn(sentence, 0) {
		switch to := led[ref.Key]; {
		case said != "" && ref.Screen != said:
			faults = append(faults, ref.Key+" is not said to be "+said+"'s")
		case here == "" || ref.Screen == "dialog" || ref.Screen == here:
		case ref.Screen != "":
			faults = append(faults, ref.Key+" on "+ref.Screen+" is pressed on "+here)
		case to == "":
			faults = append(faults, ref.Key+" is pressed on "+here+", which it does not say")
		}
		if to := led[ref.Key]; to != "" && ref.Screen != "dialog" {
			here = to
		}
	}
	return faults
}

// A sentence that names a screen, or a key that leads to one, says of the keys
// behind it that they are of that screen.
func TestRunbookSentencesSayTheScreen(t *testing.T) {
	led := make(map[string]string)
	inSituation(t, "incident", 100, 30, func(t *testing.T, m *model) {
		for _, r := range leading {
			keys(m, "o", "1")
			if m.screen != runbook {
				t.Fatalf("1 leads to %s", m.screen)
			}
			keys(m, string(r))
			if m.screen != runbook {
				led[string(r)] = m.screen.String()
			}
		}
	})
	for k, want := range map[string]string{"o": "overview", "l": "logs", "d": "decisions", "e": "changes", "i": "incident", "m": "map", "w": "queue", "$": "money"} {
		if led[k] != want {
			t.Errorf("%s leads to %q, not to %s", k, led[k], want)
		}
	}
	for sentence, faulty := range map[string]bool{
		"on the log screen `L` on decision goes to its lines": true,
		"On the decisions screen `/` on decisions":            false,
		"`x` on incident, then y":                             true,
		"press [1]":                                           true,
		"Press `l`, then `x`":                                 true,
		"Press `l`, then `n` on incident":                     true,
		"Press `l`, then `A` on logs":                         false,
		"Press `o`, then `y` in the dialog":                   false,
		"Press `d` or `l`":                                    false,
	} {
		if fs := sentenceFaults(sentence, led); len(fs) > 0 != faulty {
			t.Errorf("%s: %q", sentence, fs)
		}
	}
	rs := embeddedRunbooks(t)
	for i := range rs {
		for _, s := range rs[i].Sections {
			for _, b := range s.Blocks {
				for _, p := range b.Paragraphs {
					for sentence := range strings.SplitSeq(p, ". ") {
						for _, f := range sentenceFaults(sentence, led) {
							t.Errorf("%s:%d: %s: %s", rs[i].File, b.Line, f, sentence)
						}
					}
				}
			}
		}
	}
}
