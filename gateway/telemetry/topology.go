package telemetry

import (
	"slices"
	"strconv"
	"time"

	"failback/gateway/decision"
)

// Topology says which names the configuration has: the only values that the
// labels model, provider, region, capability, primary and task_type may take.
type Topology struct {
	Upstreams []TopologyUpstream
	Models    []TopologyModel
	Tasks     []TopologyTask // those configured; unnamed and other need not be listed
	// DefaultTaskStays says that requests without a task never leave their primary.
	DefaultTaskStays bool
	// Transitions are all that breakers can do. Without them transitions are
	// counted as they come, and none is there from the start.
	Transitions []Transition
	// HealthTransitions are the same of the health of upstreams.
	HealthTransitions []Transition
	// Shares are those that steps can come to, in percent, besides 0 and 100.
	Shares []int
	// LongestFirstOutput and LongestRequest are how long a client may have to wait
	// for its first output, and for the end.
	LongestFirstOutput, LongestRequest time.Duration
}

// Transition is one thing that a breaker, or the health of an upstream, can do.
type Transition struct{ From, To, Reason string }

// TopologyUpstream is one configured upstream.
type TopologyUpstream struct {
	Name, Region string
	// Dialect tells who can stand in for whom: no candidate does for one of
	// another dialect. Left empty everywhere, all can.
	Dialect decision.Dialect
	// Capabilities are those that any model uses of it.
	Capabilities decision.CapabilitySet
}

// TopologyModel is one configured model.
type TopologyModel struct {
	Name       string
	Candidates []TopologyCandidate
	// FirstOutputUnder is the limit of its first_output objective; 0: it has none.
	FirstOutputUnder time.Duration
}

// TopologyCandidate is one candidate of a model. A model may name an upstream twice.
type TopologyCandidate struct {
	Upstream string
	Primary  bool // it is the primary of at least one endpoint
}

// TopologyTask is one configured task.
type TopologyTask struct {
	Name  string
	Stays bool // fallback: never
}

// Other is the label of a model or upstream that the configuration does not
// name: text of a client's, or a name it has lost.
const Other = "other"

// names is a Topology made ready for questions.
type names struct {
	upstreams   map[string]TopologyUpstream
	models      map[string][]candidate
	tasks       []TopologyTask // unnamed and other included
	transitions map[Transition]bool
	health      map[Transition]bool
	shares      map[string]bool
	under       map[string]time.Duration // limits of first output, by model
}

// candidate is an upstream that a model names, once.
type candidate struct {
	upstream string
	primary  bool
	standIn  bool // it may answer where another candidate is the primary
}

func (t Topology) names() *names {
	n := &names{
		upstreams:   make(map[string]TopologyUpstream, len(t.Upstreams)),
		models:      make(map[string][]candidate, len(t.Models)),
		transitions: make(map[Transition]bool, len(t.Transitions)),
		under:       map[string]time.Duration{},
	}
	for _, u := range t.Upstreams {
		n.upstreams[u.Name] = u
	}
	for _, m := range t.Models {
		n.models[m.Name] = n.candidates(m)
		if m.FirstOutputUnder > 0 {
			n.under[m.Name] = m.FirstOutputUnder
		}
	}
	for _, task := range t.Tasks {
		if !n.hasTask(task.Name) && task.Name != decision.TaskUnnamed && task.Name != decision.TaskOther {
			n.tasks = append(n.tasks, task)
		}
	}
	// A task that is named but not configured may not fall back.
	n.tasks = append(n.tasks,
		TopologyTask{Name: decision.TaskUnnamed, Stays: t.DefaultTaskStays},
		TopologyTask{Name: decision.TaskOther, Stays: true})
	for _, tr := range t.Transitions {
		n.transitions[tr] = true
	}
	n.health = make(map[Transition]bool, len(t.HealthTransitions))
	for _, tr := range t.HealthTransitions {
		n.health[tr] = true
	}
	n.shares = map[string]bool{"0": true, "100": true}
	for _, share := range t.Shares {
		n.shares[strconv.Itoa(share)] = true
	}
	return n
}

// candidates returns the candidates of m with each upstream once.
func (n *names) candidates(m TopologyModel) []candidate {
	var cs []candidate
	for i, c := range m.Candidates {
		at := slices.IndexFunc(cs, func(o candidate) bool { return o.upstream == c.Upstream })
		if at < 0 {
			at = len(cs)
			cs = append(cs, candidate{upstream: c.Upstream})
		}
		cs[at].primary = cs[at].primary || c.Primary
		for j, o := range m.Candidates {
			if i != j && o.Primary && n.upstreams[o.Upstream].Dialect == n.upstreams[c.Upstream].Dialect {
				cs[at].standIn = true
			}
		}
	}
	return cs
}

func (n *names) hasTask(name string) bool {
	return slices.ContainsFunc(n.tasks, func(t TopologyTask) bool { return t.Name == name })
}

// candidate reports whether the upstream is a candidate of the model.
func (n *names) candidate(model, upstream string) bool {
	return slices.ContainsFunc(n.models[model], func(c candidate) bool { return c.upstream == upstream })
}

// primary reports whether the upstream is the primary of any model.
func (n *names) primary(upstream string) bool {
	for _, cs := range n.models {
		if slices.Contains(cs, candidate{upstream, true, true}) || slices.Contains(cs, candidate{upstream, true, false}) {
			return true
		}
	}
	return false
}

// The labels that stand for names which may not be configured.

func (n *names) model(name string) string {
	if _, ok := n.models[name]; ok {
		return name
	}
	return Other
}

func (n *names) provider(name string) string {
	if name == "" {
		return decision.NoProvider
	}
	if _, ok := n.upstreams[name]; ok {
		return name
	}
	return Other
}

func (n *names) region(upstream string) string { return n.upstreams[upstream].Region }

func (n *names) task(name string) string {
	if name == "" {
		return decision.TaskUnnamed
	}
	if n.hasTask(name) {
		return name
	}
	return decision.TaskOther
}
