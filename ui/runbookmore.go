package ui

import (
	"slices"
	"strconv"

	"failback/runbooks"
)

// elsewhere is the short word of the key that leads from a runbook to where all of a
// live value is; those that are not here are on the overview, and what is said of an
// upstream in its detail there.
var elsewhere = map[string]string{
	runbooks.LiveSignals: "steps", runbooks.LiveProbes: "steps",
	runbooks.LiveFault: "map", runbooks.LiveDependencies: "map",
	runbooks.LiveSLO:      "money",
	runbooks.LiveIncident: "incident",
	runbooks.LiveGateways: "keys", runbooks.LiveStore: "keys", runbooks.LiveJobs: "keys",
	runbooks.LiveLog: "keys", runbooks.LiveTraces: "keys", runbooks.LiveNotify: "keys",
}

// keysTo are the keys, each once, that show all of the live values of these names;
// those that do nothing now are left out.
func (m *model) keysTo(names []string) []string {
	var keys []string
	for _, n := range names {
		word := elsewhere[n]
		if word == "" {
			word = "overview"
		}
		for i := range table {
			b := &table[i]
			if h := b.Help(); h.Desc == word && b.on.has(runbook) && (b.off == nil || b.off(m) == "") && !slices.Contains(keys, h.Key) {
				keys = append(keys, h.Key)
			}
		}
	}
	return keys
}

// more says that some of these live values has no room, and which keys show it.
func (m *model) more(st style, says string, names ...string) row {
	r := styled(st, says)
	for i, k := range m.keysTo(names) {
		if i == 0 {
			r = r.add(st, ":")
		}
		r = r.add(accent, " "+k)
	}
	return r
}

func andMore(n int) string { return "and " + strconv.Itoa(n) + " more" }
