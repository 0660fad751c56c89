package gateway

import (
	"fmt"

	"failback/gateway/config"
	"failback/gateway/decision"
	"failback/gateway/operator"
	"failback/gateway/policy"
	"failback/gateway/router"
)

// Report is what a valid configuration means, for people who review it.
type Report struct {
	Path     string           `json:"path"`
	Hash     string           `json:"hash"`
	Findings []config.Finding `json:"findings"`
	Models   []ReportModel    `json:"models"`
	// Domains are what the candidates of each model share.
	Domains   []ReportDomain   `json:"fault_domains"`
	Upstreams []ReportUpstream `json:"upstreams"`
	Tasks     []ReportTask     `json:"tasks"`
}

// ReportModel is the order in which a model's candidates are asked, by dialect.
type ReportModel struct {
	Name       string   `json:"name"`
	Dialect    string   `json:"dialect"`
	Primary    string   `json:"primary"` // empty: the model does not exist in this dialect
	Candidates []string `json:"candidates"`
}

// ReportDomain is one kind of fault domain of a model: whether one failure
// takes several of its candidates ("fake redundancy").
type ReportDomain struct {
	Model  string `json:"model"`
	Domain string `json:"domain"` // dns, egress, …; host: the same endpoint; credential
	// Verdict is shared; accepted: shared, and taken on purpose; unknown: not
	// shared as far as it is declared; or apart.
	Verdict string        `json:"verdict"`
	Shared  []ReportShare `json:"shared"`
	Unknown []string      `json:"unknown"` // upstreams that do not declare it
	// Finding is the name by which sharing it can be accepted, Accepted the
	// reason why it is; empty where nothing is shared.
	Finding  string `json:"finding"`
	Accepted string `json:"accepted"`
}

// The verdicts of a ReportDomain.
const (
	domainShared   = "shared"
	domainAccepted = "accepted"
	domainUnknown  = "unknown"
	domainApart    = "apart"
)

// ReportShare are upstreams that share one value of a domain.
type ReportShare struct {
	Value     string   `json:"value"` // empty for host and credential
	Upstreams []string `json:"upstreams"`
}

// ReportUpstream is who and what stands behind an upstream. Empty texts are
// unnamed.
type ReportUpstream struct {
	Name          string `json:"name"`
	Owner         string `json:"owner"`
	Signal        string `json:"signal"`
	StateBoundary string `json:"state_boundary"`
	// Fallback is who takes over, for each model and dialect of which it is the
	// primary.
	Fallback []ReportFallback `json:"fallback"`
}

// ReportFallback is who takes over from a primary, in order; nobody if empty.
type ReportFallback struct {
	Model      string   `json:"model"`
	Dialect    string   `json:"dialect"`
	Candidates []string `json:"candidates"`
}

// ReportTask is one way in which a task's request can end.
type ReportTask struct {
	Task     string `json:"task"`
	Status   string `json:"status"`
	Client   string `json:"client_gets"`
	UserSees string `json:"user_sees"`
}

// NewToken makes a token or client key and the hash to configure.
func NewToken() (token, hash string) { return operator.NewToken() }

// Check says what cfg means: findings, who answers for which model, and what
// every task's client gets, whatever happens.
func Check(cfg *config.Config) Report {
	r := Report{Path: cfg.Path, Hash: cfg.Hash(), Findings: cfg.Lint()}
	upstreams := make(map[string]*router.Upstream, len(cfg.Upstreams))
	for _, u := range cfg.Upstreams {
		upstreams[u.Name] = &router.Upstream{Name: u.Name, Dialect: u.Dialect}
	}
	for _, m := range cfg.Models {
		var candidates []*router.Candidate
		for _, c := range m.Candidates {
			candidates = append(candidates, &router.Candidate{Upstream: upstreams[c.Upstream], Model: c.Model, Weight: c.Weight, Substitute: c.Substitute})
		}
		model := router.NewModel(m.Name, candidates)
		for _, d := range dialects {
			r.Models = append(r.Models, reportModel(model, d))
		}
	}
	for _, d := range cfg.Domains() {
		r.Domains = append(r.Domains, reportDomain(d))
	}
	for _, u := range cfg.Upstreams {
		r.Upstreams = append(r.Upstreams, reportUpstream(u, r.Models))
	}
	other := config.Task{
		Name: decision.TaskOther, Fallback: string(policy.Never), OnUnavailable: cfg.DefaultTask.OnUnavailable,
		UserSees: "as unnamed; a task that is not configured may not fall back",
	}
	unnamed := cfg.DefaultTask
	unnamed.Name = decision.TaskUnnamed
	for _, t := range append(append([]config.Task{}, cfg.Tasks...), unnamed, other) {
		r.Tasks = append(r.Tasks, reportTask(t)...)
	}
	return r
}

func reportModel(m *router.Model, d decision.Dialect) ReportModel {
	out := ReportModel{Name: m.Name, Dialect: string(d)}
	l := m.Lineup(d)
	if l == nil {
		return out
	}
	out.Primary = l.Primary().Upstream.Name
	for _, c := range l.Candidates {
		s := fmt.Sprintf("%s %g", c.Upstream.Name, c.Weight)
		if c.Substitute {
			s += " (substitute " + c.Model + ")"
		}
		out.Candidates = append(out.Candidates, s)
	}
	return out
}

func reportDomain(d config.Domain) ReportDomain {
	out := ReportDomain{Model: d.Model, Domain: d.Kind, Verdict: domainApart, Shared: []ReportShare{}, Unknown: append([]string{}, d.Unknown...)}
	for _, g := range d.Shared() {
		out.Shared = append(out.Shared, ReportShare{g.Value, g.Upstreams})
	}
	switch {
	case d.Accepted != "":
		out.Verdict, out.Finding, out.Accepted = domainAccepted, d.Subject(), d.Accepted
	case len(out.Shared) > 0:
		out.Verdict, out.Finding = domainShared, d.Subject()
	case len(d.Unknown) > 0:
		out.Verdict = domainUnknown
	}
	return out
}

func reportUpstream(u config.Upstream, models []ReportModel) ReportUpstream {
	out := ReportUpstream{Name: u.Name, Owner: u.Owner, Signal: u.Signal, StateBoundary: u.StateBoundary, Fallback: []ReportFallback{}}
	for _, m := range models {
		if m.Primary == u.Name {
			out.Fallback = append(out.Fallback, ReportFallback{m.Name, m.Dialect, m.Candidates[1:]})
		}
	}
	return out
}

func reportTask(t config.Task) []ReportTask {
	task := taskFrom(t)
	sees := t.UserSees
	if sees == "" {
		sees = "not said (user_sees)"
	}
	// What the user sees in place of the primary's answer speaks of a person
	// where there is to be one, else of the fallback where there may be one.
	degraded, without := sees, "an error"
	switch {
	case task.Fallback == policy.Never:
		without = sees
	case task.OnUnavailable == policy.Human:
		degraded, without = "the answer", sees
	}
	rows := []ReportTask{{t.Name, string(decision.Completed), "the primary's answer", "the answer"}}
	switch task.Fallback {
	case policy.SameModel:
		rows = append(rows, ReportTask{t.Name, string(decision.DegradedCompleted), "the same model's answer from another upstream", degraded})
	case policy.Any:
		rows = append(rows, ReportTask{t.Name, string(decision.DegradedCompleted), "another candidate's answer, Failback-Substitute says whether the model differs", degraded})
	}
	if !task.Hold {
		rows = append(rows, ReportTask{t.Name, string(decision.Incomplete), "one error event, the connection is broken off", "an answer that stops midway"})
	}
	end := policy.End(policy.Terms{Task: task}, policy.Finish{Last: decision.BreakerOpen, PolicyRefused: task.Fallback == policy.Never})
	gets := fmt.Sprintf("HTTP %d, error code %s", end.HTTPStatus, end.Code)
	if task.OnUnavailable == policy.Fail {
		gets = "HTTP 502, 503, 504 or 429, error code such as " + end.Code
	}
	return append(rows, ReportTask{t.Name, string(end.Status), gets, without})
}
