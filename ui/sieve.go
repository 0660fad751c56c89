package ui

import (
	"strings"

	"failback/ui/text"
)

// sifted are the screens of text whose tables have a filter. Those with a cursor
// have theirs in list.go.
var sifted = at(incidents, faultMap, queue, money, ownlog, help)

// sieve lets through of the tables of a screen what its filter matches, and counts
// it. What is no row of a table does not go through it.
type sieve struct {
	filter     string // lower case; empty: everything passes
	shown, all int
}

func (m *model) sieve() sieve { return sieve{filter: m.lists[m.screen].filter} }

// pass says whether a row that says all of this is shown.
func (f *sieve) pass(says ...string) bool {
	f.all++
	if f.filter != "" && !strings.Contains(strings.ToLower(strings.Join(says, " ")), f.filter) {
		return false
	}
	f.shown++
	return true
}

// without is what a table without a row says: nothing, in dim words, where it has
// none; that none matches, where it has some.
func (f *sieve) without(nothing string) row {
	if f.filter != "" {
		return styled(dim, "   none matches the filter")
	}
	return styled(dim, "   "+nothing)
}

// filterWord is what an active filter lets through, for the rule above the table;
// empty without one.
func (m *model) filterWord(filter string, shown, all int) string {
	if filter == "" {
		return ""
	}
	return text.Count(uint64(shown)) + " of " + text.Count(uint64(all)) + ", filter: " + m.th.outside(filter)
}
