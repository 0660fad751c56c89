package decision

import "strings"

// Auto is Event.By, and who set a share, where the machine acted by itself. No
// operator may be known by this name, or by one of ByPlan's.
const Auto = "auto"

const planPrefix = "plan:"

// ByPlan is Event.By of a step that a plan took, name being who approved it.
func ByPlan(name string) string { return planPrefix + name }

// PlanOf returns who approved the plan by which by acts; false if it is none.
func PlanOf(by string) (name string, ok bool) { return strings.CutPrefix(by, planPrefix) }

// ByMachine reports whether by is Auto or a plan, and not an operator who typed
// a command.
func ByMachine(by string) bool { return by == Auto || strings.HasPrefix(by, planPrefix) }
