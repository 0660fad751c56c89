package runbooks

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Runbook is one file. It is never changed once loaded.
type Runbook struct {
	ID, Title string
	// File is the name it was loaded from.
	File string
	// Contact is whom to call; ContactOwner for the configured owner.
	Contact string
	// Reviewed is the day on which somebody last read it against the program.
	Reviewed time.Time
	// Alerts are the names of the alerts that it is for.
	Alerts []string
	// When are the conditions of which any proposes it, that of its alerts last.
	When []Condition
	// Sections are all of Titles, in that order.
	Sections []Section
}

// ContactOwner is the Contact that stands for who may call traffic fully back.
const ContactOwner = "owner"

// Titles are the sections that each runbook has, in their order.
var Titles = []string{
	"What it looks like here",
	"What to check first",
	"What to do",
	"How to go back",
	"When to escalate",
}

// LiveValue is a live value that a step may ask for.
type LiveValue struct{ Name, Shows string }

// The names of live values.
const (
	LiveUsers        = "users"
	LiveRatio        = "ratio"
	LiveBreakers     = "breakers"
	LiveShare        = "share"
	LiveOwn          = "own"
	LiveNext         = "next"
	LiveStranded     = "stranded"
	LiveCredential   = "credential"
	LiveHealth       = "health"
	LiveSignals      = "signals"
	LiveProbes       = "probes"
	LiveRate         = "rate"
	LiveBudget       = "budget"
	LiveRetries      = "retries"
	LiveSLO          = "slo"
	LiveViolations   = "violations"
	LiveFault        = "fault"
	LiveDependencies = "dependencies"
	LiveGateways     = "gateways"
	LiveStore        = "store"
	LiveJobs         = "jobs"
	LiveLog          = "log"
	LiveTraces       = "traces"
	LiveNotify       = "notify"
	LiveIncident     = "incident"
	LiveSessions     = "sessions"
)

// LiveValues are all of them, in the order in which they are shown.
var LiveValues = []LiveValue{
	{LiveUsers, "requests a second, the part that failed, p95 of the first output"},
	{LiveRatio, "the fallback ratio and its limit"},
	{LiveFault, "the fault that several upstreams share"},
	{LiveBreakers, "buckets that are not closed, each with its reason"},
	{LiveShare, "shares below 100%, with the live part of own traffic"},
	{LiveOwn, "own traffic of each primary, and who takes it otherwise"},
	{LiveNext, "the next step up, or why not"},
	{LiveStranded, "requests that nobody else may take, by task"},
	{LiveCredential, "keys that cool, and until when"},
	{LiveHealth, "the health word of each upstream"},
	{LiveSignals, "signals that are red"},
	{LiveProbes, "probes that did not end well, or that are held"},
	{LiveRate, "buckets whose rate 429s bind"},
	{LiveBudget, "the retry budget"},
	{LiveRetries, "requests a second that are retries of clients"},
	{LiveSLO, "error budgets: spent, and how fast"},
	{LiveViolations, "tasks that fell back although they may not, last hour"},
	{LiveDependencies, "declared dependencies and their last check"},
	{LiveGateways, "the gateways of the store"},
	{LiveStore, "whether the store can be written, and what is unsynced"},
	{LiveJobs, "jobs that are late"},
	{LiveLog, "the decision log and the audit"},
	{LiveTraces, "the export of traces"},
	{LiveNotify, "whether those who were to be told have been"},
	{LiveIncident, "open incidents, their milestones and open questions"},
	{LiveSessions, "the consoles that are open"},
}

// LiveNames are their names.
var LiveNames = func() (names []string) {
	for _, v := range LiveValues {
		names = append(names, v.Name)
	}
	return names
}()

// Section is one of Titles with what is under it, at least one block.
type Section struct {
	Title  string
	Blocks []Block
}

// Kind says what a Block is.
type Kind uint8

const (
	Prose Kind = iota
	Bullet
	Step
)

// Block is a paragraph, a bullet or a step.
type Block struct {
	Kind Kind
	// Paragraphs are its text, each inline Markdown without line breaks; at least one.
	Paragraphs []string
	// Number counts the steps of a runbook from 1; 0 for what is none.
	Number int
	// Query is the name of the canned query of a step, empty if it has none.
	Query string
	// Live are the live values of a step, of LiveNames.
	Live []string
	// Line is where it begins in its file.
	Line int

	queryLine int
}

// wordsRoom is how much of a block its Words have, in bytes.
const wordsRoom = 200

// Words is what b begins with, as its runbook has it: enough to know it again.
func (b *Block) Words() string {
	s := b.Paragraphs[0]
	if len(s) <= wordsRoom {
		return s
	}
	s = strings.ToValidUTF8(s[:wordsRoom], "")
	if i := strings.LastIndexByte(s, ' '); i > 0 {
		s = s[:i]
	}
	return s + " …"
}

// Steps returns the steps in their order; the one of number n is at n-1.
func (r *Runbook) Steps() []*Block {
	var s []*Block
	for i := range r.Sections {
		for j := range r.Sections[i].Blocks {
			if b := &r.Sections[i].Blocks[j]; b.Kind == Step {
				s = append(s, b)
			}
		}
	}
	return s
}

// Live returns every live value that a step asks for, in the order of LiveNames.
func (r *Runbook) Live() []string {
	var l []string
	for _, n := range LiveNames {
		if slices.ContainsFunc(r.Steps(), func(b *Block) bool { return slices.Contains(b.Live, n) }) {
			l = append(l, n)
		}
	}
	return l
}

// CheckQueries says which steps run a query that is not among names, with file
// and line; nil if none does.
func CheckQueries(rs []Runbook, names []string) error {
	var errs []error
	for i := range rs {
		for _, b := range rs[i].Steps() {
			if b.Query != "" && !slices.Contains(names, b.Query) {
				errs = append(errs, fmt.Errorf("%s: no canned query is named %q; there are %s",
					position(rs[i].File, b.queryLine), b.Query, list(names)))
			}
		}
	}
	return errors.Join(errs...)
}

func position(file string, line int) string { return file + ":" + strconv.Itoa(line) }
