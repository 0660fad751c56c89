package gateway

import (
	"fmt"
	"strings"
	"text/tabwriter"

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
	Tasks    []ReportTask     `json:"tasks"`
}

// ReportModel is the order in which a model's candidates are asked, by dialect.
type ReportModel struct {
	Name       string   `json:"name"`
	Dialect    string   `json:"dialect"`
	Primary    string   `json:"primary"` // empty: the model does not exist in this dialect
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

// String writes r as `failback check` prints it, with what could drive a
// terminal made visible.
func (r Report) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s is valid, hash %s\n", r.Path, r.Hash)
	fmt.Fprintf(w, "\nFINDINGS\t%d\n", len(r.Findings))
	for _, f := range r.Findings {
		fmt.Fprintf(w, "%s\t%s\t%s\n", f.Severity, f.Subject, f.Message)
	}
	fmt.Fprint(w, "\nMODEL\tDIALECT\tPRIMARY\tCANDIDATES IN ORDER\n")
	for _, m := range r.Models {
		primary, candidates := m.Primary, strings.Join(m.Candidates, ", ")
		if primary == "" {
			primary, candidates = "-", "none: the model does not exist on this dialect's endpoints"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", m.Name, m.Dialect, primary, candidates)
	}
	fmt.Fprint(w, "\nTASK\tSTATUS\tTHE CLIENT GETS\tTHE USER SEES\n")
	for _, t := range r.Tasks {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", t.Task, t.Status, t.Client, t.UserSees)
	}
	_ = w.Flush() // a Builder takes everything
	return config.Escaped(b.String())
}
