package telemetry

import "failback/gateway/decision"

// The series that a configuration makes reachable, metric by metric.

func (n *names) requestSeries() map[labels]bool {
	w := map[labels]bool{}
	for model, cs := range n.models {
		for _, c := range cs {
			for _, route := range c.routes() {
				for _, o := range providedOutcomes(route) {
					w[labels{model, c.upstream, string(route), string(o)}] = true
				}
			}
		}
	}
	n.eachModel(func(model string) {
		for _, o := range noneOutcomes {
			w[labels{model, decision.NoProvider, string(decision.RouteNone), string(o)}] = true
		}
	})
	return w
}

// routes are the ways an answer of c may come.
func (c candidate) routes() []decision.Route {
	var l []decision.Route
	if c.primary {
		l = append(l, decision.RoutePrimary)
	}
	if c.standIn {
		l = append(l, decision.RouteFallback)
	}
	return l
}

// eachModel visits every model and Other.
func (n *names) eachModel(f func(model string)) {
	for model := range n.models {
		f(model)
	}
	f(Other)
}

// fallbackSeries is never empty where there is a model: without the metric the
// fallback ratio would be unknown, and FailbackSeriesAbsent would fire, where
// it is 0 because nobody stands in.
func (n *names) fallbackSeries() map[labels]bool {
	w := map[labels]bool{}
	defer func() {
		if len(w) > 0 {
			return
		}
		for model, cs := range n.models {
			for _, c := range cs {
				if c.primary {
					w[labels{model, c.upstream, decision.TaskOther, string(decision.NotAllowed)}] = true
				}
			}
		}
	}()
	for model, cs := range n.models {
		for _, c := range cs {
			if !c.primary || !n.hasStandIn(cs, c) {
				continue
			}
			for _, task := range n.tasks {
				if task.Stays {
					continue
				}
				for _, r := range triggeredReasons {
					w[labels{model, c.upstream, task.Name, string(r)}] = true
				}
			}
		}
	}
	return w
}

// hasStandIn reports whether another candidate than the primary c, or c under
// another model of its own, may answer in its place.
func (n *names) hasStandIn(cs []candidate, c candidate) bool {
	for _, o := range cs {
		if o.standIn && n.upstreams[o.upstream].Dialect == n.upstreams[c.upstream].Dialect {
			return true
		}
	}
	return false
}

func (n *names) attemptSeries() map[labels]bool {
	w := map[labels]bool{}
	for name, u := range n.upstreams {
		for _, capability := range u.Capabilities.List() {
			for _, class := range decision.Classes {
				w[labels{name, u.Region, string(capability), string(class)}] = true
			}
		}
	}
	return w
}

func (n *names) firstOutputSeries() map[labels]bool {
	w := map[labels]bool{}
	for model, cs := range n.models {
		for _, c := range cs {
			w[labels{model, c.upstream}] = true
		}
	}
	return w
}

func (n *names) durationSeries() map[labels]bool {
	w := map[labels]bool{}
	for _, route := range []decision.Route{decision.RoutePrimary, decision.RouteFallback} {
		for _, o := range providedOutcomes(route) {
			w[labels{string(route), string(o)}] = true
		}
	}
	for _, o := range noneOutcomes {
		w[labels{string(decision.RouteNone), string(o)}] = true
	}
	return w
}

func (n *names) transitionSeries() map[labels]bool {
	w := map[labels]bool{}
	for name, u := range n.upstreams {
		for _, capability := range u.Capabilities.List() {
			for tr := range n.transitions {
				w[labels{name, u.Region, string(capability), tr.From, tr.To, tr.Reason}] = true
			}
		}
	}
	return w
}

func (n *names) stepSeries() map[labels]bool {
	w := map[labels]bool{}
	for name := range n.upstreams {
		for to := range n.shares {
			for _, by := range []string{byOperator, byPlan, byAuto} {
				w[labels{name, to, by}] = true
			}
		}
	}
	return w
}

func (n *names) healthSeries() map[labels]bool {
	w := map[labels]bool{}
	for name := range n.upstreams {
		for tr := range n.health {
			w[labels{name, tr.From, tr.To, tr.Reason}] = true
		}
	}
	return w
}

func (n *names) ownSeries() map[labels]bool {
	w := map[labels]bool{}
	for _, cs := range n.models {
		for _, c := range cs {
			if !c.primary {
				continue
			}
			w[labels{c.upstream, decision.NoProvider}] = true
			for _, o := range cs {
				if n.upstreams[o.upstream].Dialect == n.upstreams[c.upstream].Dialect {
					w[labels{c.upstream, o.upstream}] = true
				}
			}
		}
	}
	return w
}

func (n *names) sloSeries() map[labels]bool {
	w := map[labels]bool{}
	add := func(model, provider string, v Verdict, reasons ...decision.Reason) {
		for _, r := range reasons {
			w[labels{model, provider, string(v), string(r)}] = true
		}
	}
	for model, cs := range n.models {
		for _, c := range cs {
			if c.primary {
				add(model, c.upstream, Good, decision.PrimaryCompleted, decision.Overflow)
				add(model, c.upstream, Bad, brokenReasons...)
				add(model, c.upstream, Excluded, leftReasons...)
			}
			if c.standIn {
				add(model, c.upstream, Good, passedReasons...)
				add(model, c.upstream, Bad, passedReasons...)
				add(model, c.upstream, Excluded, passedReasons...)
			}
		}
		add(model, decision.NoProvider, Bad, passedReasons...)
		add(model, decision.NoProvider, Bad, stoppedReasons...)
		add(model, decision.NoProvider, Bad, decision.Draining)
		add(model, decision.NoProvider, Excluded, callersReasons...)
	}
	add(Other, decision.NoProvider, Bad, decision.Draining, decision.Capacity)
	add(Other, decision.NoProvider, Excluded, callersReasons...)
	return w
}

func (n *names) inTimeSeries() map[labels]bool {
	w := map[labels]bool{}
	for model := range n.under {
		w[labels{model, string(Good)}] = true
		w[labels{model, string(Bad)}] = true
	}
	return w
}

func (n *names) violationSeries() map[labels]bool {
	w := map[labels]bool{}
	for _, task := range n.tasks {
		w[labels{task.Name}] = true
	}
	return w
}

// keep returns whether the names in a series of d are configured, or stand for
// those that are not.
func (n *names) keep(d *definition) func(labels) bool {
	return func(key labels) bool {
		model := d.value(key, "model")
		if model != "" && n.model(model) != model {
			return false
		}
		for _, label := range []string{"provider", "primary", "answered_by"} {
			p := d.value(key, label)
			if p == "" || p == Other || p == decision.NoProvider {
				continue
			}
			if n.provider(p) != p || model != "" && model != Other && !n.candidate(model, p) {
				return false
			}
			if label == "provider" && d.hasLabel("region") && d.value(key, "region") != n.region(p) {
				return false
			}
		}
		task := d.value(key, "task_type")
		return task == "" || n.hasTask(task)
	}
}

func (d *definition) hasLabel(label string) bool {
	for _, l := range d.labels {
		if l == label {
			return true
		}
	}
	return false
}
