package telemetry

import (
	"slices"

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
}

// TopologyUpstream is one configured upstream.
type TopologyUpstream struct {
	Name, Region string
	// Capabilities are those that any model uses of it.
	Capabilities decision.CapabilitySet
}

// TopologyModel is one configured model.
type TopologyModel struct {
	Name       string
	Candidates []TopologyCandidate
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
	regions      map[string]string // by upstream
	capabilities map[string]decision.CapabilitySet
	models       map[string][]TopologyCandidate
	tasks        []TopologyTask // unnamed and other included
}

func (t Topology) names() *names {
	n := &names{
		regions:      make(map[string]string, len(t.Upstreams)),
		capabilities: make(map[string]decision.CapabilitySet, len(t.Upstreams)),
		models:       make(map[string][]TopologyCandidate, len(t.Models)),
	}
	for _, u := range t.Upstreams {
		n.regions[u.Name] = u.Region
		n.capabilities[u.Name] = u.Capabilities
	}
	for _, m := range t.Models {
		n.models[m.Name] = m.merged()
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
	return n
}

// merged returns the candidates with each upstream once.
func (m TopologyModel) merged() []TopologyCandidate {
	var cs []TopologyCandidate
	for _, c := range m.Candidates {
		i := slices.IndexFunc(cs, func(o TopologyCandidate) bool { return o.Upstream == c.Upstream })
		if i < 0 {
			cs = append(cs, c)
			continue
		}
		cs[i].Primary = cs[i].Primary || c.Primary
	}
	return cs
}

func (n *names) hasTask(name string) bool {
	return slices.ContainsFunc(n.tasks, func(t TopologyTask) bool { return t.Name == name })
}

// candidate reports whether the upstream is a candidate of the model.
func (n *names) candidate(model, upstream string) bool {
	return slices.ContainsFunc(n.models[model], func(c TopologyCandidate) bool { return c.Upstream == upstream })
}

// primary reports whether the upstream is the primary of any model.
func (n *names) primary(upstream string) bool {
	for _, cs := range n.models {
		for _, c := range cs {
			if c.Upstream == upstream && c.Primary {
				return true
			}
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
	if _, ok := n.regions[name]; ok {
		return name
	}
	return Other
}

func (n *names) task(name string) string {
	if name == "" {
		return decision.TaskUnnamed
	}
	if n.hasTask(name) {
		return name
	}
	return decision.TaskOther
}
