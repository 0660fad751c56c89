package ui

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"failback/runbooks"
)

// 0 leads to all runbooks from every screen; enter opens one, esc goes back to
// the list and then to where one was.
func TestRunbookList(t *testing.T) {
	inSituation(t, "incident", 100, 30, func(t *testing.T, m *model) {
		seen := make(map[string]bool)
		for i := range len(m.runbookSet()) {
			keys(m, "o", "d", "0")
			for range i {
				keys(m, "j")
			}
			if got := screenOf(m); !strings.Contains(got, "RUNBOOKS  14") {
				t.Fatalf("0 does not list:\n%s", got)
			}
			keys(m, "enter")
			if m.screen != runbook || m.listing() {
				t.Fatal("enter opens nothing")
			}
			seen[m.runbook.open.ID] = true
			if keys(m, "esc"); !m.listing() || m.runbook.list.cursor != i {
				t.Fatalf("esc does not lead back to the list: %+v", m.runbook.list)
			}
			if keys(m, "esc"); m.screen != decisions {
				t.Fatalf("esc leads to %s", m.screen)
			}
		}
		if len(seen) != len(m.runbookSet()) {
			t.Errorf("reached %d of %d", len(seen), len(m.runbookSet()))
		}
		// A digit opens from the list, too, and is no way back to it.
		if keys(m, "0", "1", "esc"); m.screen != decisions {
			t.Errorf("esc after a digit leads to %s", m.screen)
		}
		// In the list nothing can be ticked or copied as ticks.
		keys(m, "0", "x", "T", "X")
		if !strings.Contains(m.message.text, "no step is ticked") && !strings.Contains(m.message.text, "no runbook is open") || m.screen != runbook {
			t.Errorf("said %q", m.message.text)
		}
		keys(m, "/", "s", "t", "o", "r", "e", "enter")
		if got := screenOf(m); !strings.Contains(got, "1 of 14, filter: store") || !strings.Contains(got, "gateway or store") || strings.Contains(got, "provider returns") {
			t.Errorf("filter:\n%s", got)
		}
		if keys(m, "esc"); m.screen != runbook || !m.listing() || strings.Contains(screenOf(m), "filter: store") {
			t.Error("esc does not clear the filter")
		}
		keys(m, "/", "q", "q", "enter")
		if got := screenOf(m); !strings.Contains(got, "none of 14 matches the filter") {
			t.Errorf("filter that lets nothing through:\n%s", got)
		}
		if keys(m, "enter"); !m.listing() {
			t.Error("enter opened a row that is not there")
		}
	})
}

// One that no longer matches keeps its digit and gives its place in the list to
// those that do.
func TestRunbookListOrder(t *testing.T) {
	inSituation(t, "incident", 100, 30, func(t *testing.T, m *model) {
		first := m.listed()[0]
		digit := m.digit(first)
		s := quiet()
		s.Upstreams[0].Share = 75
		give(m, s, nil, nil)
		rs := m.listed()
		if m.proposedWhy(first) != "" || len(m.proposals()) == 0 {
			t.Fatalf("%s still matches, or nothing does", first.ID)
		}
		if m.proposedWhy(rs[0]) == "" {
			t.Errorf("%s is first and does not match", rs[0].ID)
		}
		if m.digit(first) != digit {
			t.Errorf("its digit was %s and is %s", digit, m.digit(first))
		}
	})
}

// Runbooks from a directory extend and replace; what is wrong with them is said
// on the list and in the own log, and the built-in one stays.
func TestExtraRunbooks(t *testing.T) {
	inSituation(t, "calm", 100, 40, func(t *testing.T, m *model) {
		own := slices.Clone(embeddedRunbooks(t))
		at := func(id string) runbooks.Runbook {
			return own[slices.IndexFunc(own, func(r runbooks.Runbook) bool { return r.ID == id })]
		}
		replaced, added, bad := at("provider-5xx"), at("shared-fault"), at("manual-failback")
		replaced.Title, added.ID, added.Title = "ours returns 5xx", "ours", "ours alone"
		bad.File, bad.Sections = "/etc/own/bad.md", []runbooks.Section{{Title: "What to do", Blocks: []runbooks.Block{{Kind: runbooks.Step, Number: 1, Line: 9, Paragraphs: []string{"`y` on overview."}}}}}
		m.runbook = runbookScreen{}
		m.o.Runbooks = runbooks.Extra{Runbooks: []runbooks.Runbook{replaced, added, bad}, Errors: []error{errors.New("/etc/own/x.md:3: title is empty")}}
		keys(m, "0")
		got := screenOf(m)
		for _, want := range []string{"RUNBOOKS  15", "ours returns 5xx", "ours alone", "manual failback by the table", "LEFT OUT /etc/own/x.md:3: title is empty", "LEFT OUT /etc/own/bad.md:9: y does nothing on overview; ? lists the keys", "a built-in one of the same id stays"} {
			if !strings.Contains(got, want) {
				t.Errorf("the list lacks %q:\n%s", want, got)
			}
		}
		keys(m, "!")
		if got := screenOf(m); !strings.Contains(got, "left out: /etc/own/x.md:3: title is empty") {
			t.Errorf("! does not say it:\n%s", got)
		}
	})
}
