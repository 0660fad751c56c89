package api

import "strconv"

// PlanMostRetreats is how many retreats of a failback end a plan, and what
// `failback.advance: auto` does.
const PlanMostRetreats = 2

// OwnWayOut says what a plan leaves to an operator of a degraded upstream: the
// first step, which only a person takes, or `failback.advance: auto` where the
// machine degraded it. It is empty where a plan takes each step that is left.
func (u *Upstream) OwnWayOut(advance string) string {
	if u.Health != Degraded || u.NextStep.Share <= 0 || advance == "auto" && u.HealthBy == "auto" && u.Retreats < PlanMostRetreats {
		return ""
	}
	first := strconv.Itoa(u.NextStep.Share) + "% is yours (the way out of degraded)"
	if u.NextStep.Share >= 100 {
		return first + ", and no step is left to a plan"
	}
	return first + ", the rest by itself"
}

// PlanTakes says what a plan takes of the steps that are left to u; advance is
// that of the configuration.
func (u *Upstream) PlanTakes(advance string) string {
	if s := u.OwnWayOut(advance); s != "" {
		return s
	}
	return "the next step goes by itself when its evidence passes"
}
