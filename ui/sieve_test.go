package ui

import (
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"failback/gateway/operator/api"
	"failback/internal/bubble"
)

// Each screen with a table has a filter: it says how much of how much it lets
// through, hides the rest, and esc takes it away and stays.
func TestEveryTableHasAFilter(t *testing.T) {
	tests := []struct {
		situation, filter, word, has, lost string
	}{
		{"calm", "vertex", "1 of 4, filter: vertex", " > vertex-us-central1", "bedrock-us-west-2    CLOSED"},
		{"changes", "half", "1 of 5, filter: half", "HALF > OPEN", "share 100% > 0%"},
		{"decisions", "permission", "4 of 12, filter: permission", "  permission_ch", "document_summary"},
		{"logs-answer", "document", "filter: document", "document_summary", "policy_question"},
		{"map", "vault", "2 of 9, filter: vault", "anthropic-us-east-1  corp+", "bedrock-us-west-2    corp+"},
		{"queue", "human", "1 of 2, filter: human", "refund", "policy_question"},
		{"money", "first_output", "1 of 2, filter: first_output", "99% under 5.0s", "availability"},
		{"incident-open", "note", "1 of 7, filter: note", "ticket 4412", "CLOSED > OPEN"},
		{"ownlog", "nothing-says-this", "0 of 9, filter: nothing-says-this", "none of 9 matches the filter; esc clears it", "armed for"},
		{"help", "screen as plain text", "1 of ", "copy the whole screen as plain text", "no requests, so nothing to measure; x"},
	}
	untested := at(overview, changes, decisions, logs) | sifted
	for _, tt := range tests {
		t.Run(tt.situation, func(t *testing.T) {
			inSituation(t, tt.situation, 100, 60, func(t *testing.T, m *model) {
				if m.screen == ownlog {
					keys(m, "W", "W", "W")
				}
				untested &^= at(m.screen)
				where := m.screen
				keys(m, "/")
				keys(m, strings.Split(tt.filter, "")...)
				for _, end := range []string{"enter", "j"} {
					keys(m, end)
					got := screenOf(m)
					if !strings.Contains(got, tt.word) || !strings.Contains(got, tt.has) || strings.Contains(got, tt.lost) {
						t.Fatalf("after %s: want %q and %q, not %q:\n%s", end, tt.word, tt.has, tt.lost, got)
					}
				}
				// What is copied of a text says what it leaves out.
				if sifted.has(where) && (where != incidents || m.o.Report != nil) && !strings.Contains(m.rowText(), tt.word) {
					t.Errorf("the copy does not name the filter:\n%s", m.rowText())
				}
				keys(m, "esc")
				if got := screenOf(m); strings.Contains(got, "filter: "+tt.filter) || m.screen != where {
					t.Errorf("esc leads to %s:\n%s", m.screen, got)
				}
			})
		})
	}
	for s := range screens {
		if untested.has(s) {
			t.Errorf("no test filters %s", s)
		}
	}
}

// An active filter is on the screen at every size that has a body.
func TestFilterIsAlwaysVisible(t *testing.T) {
	for _, situation := range []string{"calm", "many", "changes", "decisions", "map", "money", "queue", "incident-open"} {
		inSituation(t, situation, 100, 30, func(t *testing.T, m *model) {
			keys(m, "/", "z", "enter")
			eachSize(0, func(w, h int) {
				m.Update(tea.WindowSizeMsg{Width: w, Height: h})
				if m.tiny() {
					return
				}
				if got := screenOf(m); !strings.Contains(got, ", filter: z") {
					t.Fatalf("%s at %dx%d hides the filter:\n%s", situation, w, h, got)
				}
			})
		})
	}
}

// c copies from every screen, to the clipboard and to a file that is named.
func TestCopyOnEveryScreen(t *testing.T) {
	dir := t.TempDir()
	inSituation(t, "incident-open", 60, 20, func(t *testing.T, m *model) {
		m.o.DataDir = dir
		m.o.Report = func(v api.Incident) string { return "# Report of " + v.ID }
		for i, tt := range []struct{ key, says string }{
			{"o", "anthropic-us-east-1"}, {"enter", "BUCKETS"}, {"b", "FAILBACK anthropic-us-east-1"}, {"e", "anthropic-us-east-1"}, {"l", "{service_name"},
			{"m", "MAP"}, {"w", "QUEUE AND PEOPLE"}, {"$", "ERROR BUDGETS"}, {"1", "What it looks like"}, {"?", "KEYS"}, {"!", "OWN LOG"}, {"i", "# Report of 20261130-034840"},
		} {
			keys(m, tt.key)
			for _, key := range []string{"c", "C"} {
				before, _ := filepath.Glob(filepath.Join(dir, "copies", "*.txt"))
				bubble.Sleep(2 * time.Second) // no two files of one name
				_, cmd := m.Update(press(key))
				if m.message.text != "" && strings.Contains(m.message.text, "is off") {
					t.Fatalf("%s on %s: %s", key, m.screen, m.message.text)
				}
				clipboard := deliver(m, cmd)
				after, _ := filepath.Glob(filepath.Join(dir, "copies", "*.txt"))
				if len(after) != len(before)+1 || clipboard == "" || !strings.Contains(m.message.text, dir) {
					t.Fatalf("%s on %s: %d files, then %d; clipboard %q; said %q", key, m.screen, len(before), len(after), clipboard, m.message.text)
				}
				if key == "c" && !strings.Contains(clipboard, tt.says) {
					t.Errorf("%d: the copy of %s lacks %q:\n%s", i, m.screen, tt.says, clipboard)
				}
			}
		}
	})
	if files, _ := os.ReadDir(filepath.Join(dir, "copies")); len(files) != 24 {
		t.Errorf("%s files", strconv.Itoa(len(files)))
	}
}

// deliver runs cmd and what follows from it, gives the messages to m, and returns
// what went to the clipboard.
func deliver(m *model, cmd tea.Cmd) (clipboard string) {
	if cmd == nil {
		return ""
	}
	switch msg := cmd().(type) {
	case nil:
	case tea.BatchMsg:
		for _, c := range msg {
			clipboard += deliver(m, c)
		}
	default:
		if v := reflect.ValueOf(msg); v.Type() == reflect.TypeOf(tea.SetClipboard("")()) {
			return v.String()
		}
		_, next := m.Update(msg)
		clipboard += deliver(m, next)
	}
	return clipboard
}
