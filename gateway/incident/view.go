package incident

import (
	"slices"
	"time"

	"failback/gateway/operator/api"
)

// Head is r as the operator API lists it.
func Head(r Record, unsynced bool) api.IncidentHead {
	return api.IncidentHead{
		ID: r.ID, Title: r.Title, State: r.State, Cause: r.Cause, Upstreams: slices.Clone(r.Upstreams),
		OpenedAt: r.OpenedAt, OpenedBy: r.OpenedBy, ClosedAt: r.ClosedAt, ClosedBy: r.ClosedBy,
		Milestones: r.Milestones, Unanswered: r.Unanswered(), Revision: r.Revision,
		Entries: len(r.Entries), Lost: r.Lost, Unsynced: unsynced,
	}
}

// View is the whole of r as the operator API shows it.
func View(r Record, unsynced bool, facts map[string]string, now time.Time) api.Incident {
	v := api.Incident{
		IncidentHead: Head(r, unsynced), At: now, Closing: closing(r, facts), Timeline: []api.IncidentEntry{},
		Requests: api.IncidentRequests{
			Primary: r.Counts.Primary, Degraded: r.Counts.Degraded, Failed: r.Counts.Failed, Forbidden: r.Counts.Forbidden,
			Kept: slices.Clone(r.Counts.Kept), Since: r.CountsSince(), Counted: Counted(r),
		},
	}
	for _, e := range r.Entries {
		v.Timeline = append(v.Timeline, e.IncidentEntry)
	}
	for _, name := range layers {
		s := r.Counts.Layer(name)
		v.Layers = append(v.Layers, api.Layer{Name: name, Degraded: s.Degraded.api(), Primary: s.Primary.api(), Nothing: Nothing(name)})
	}
	return v
}

func (t Tally) api() api.Tally {
	return api.Tally{Good: uint64(max(t.Good, 0)), Bad: uint64(max(t.Bad, 0))}
}
