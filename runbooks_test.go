package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"failback/runbooks"
	"failback/sources"
	"failback/sources/rules"
)

// Every alert names a runbook that there is and that is for it, every runbook
// names alerts that are generated, and so does every canned query.
func TestRunbooksOfAlerts(t *testing.T) {
	rs, err := runbooks.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	byID := make(map[string]*runbooks.Runbook)
	for i := range rs {
		byID[rs[i].ID] = &rs[i]
	}
	one := 0.5
	set, err := rules.New(rules.Options{
		Selector: `job="failback"`, Every: 15 * time.Second,
		Thresholds: rules.Thresholds{FallbackRatio: &one, Interrupted: &one, ClientRetries: &one, FirstOutput: &one},
		Objectives: []rules.Objective{{Model: "m", Kind: rules.Availability, Window: 720 * time.Hour}, {Model: "m", Kind: rules.FirstOutput, Window: 720 * time.Hour}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(set.Missing) > 0 {
		t.Fatalf("not all alerts are generated: %+v", set.Missing)
	}
	var names []string
	for _, r := range set.Rules {
		names = append(names, r.Name)
		switch b := byID[r.Runbook]; {
		case b == nil:
			t.Errorf("%s names the runbook %s, which there is not", r.Name, r.Runbook)
		case !slices.Contains(b.Alerts, r.Name):
			t.Errorf("%s does not name the alert %s", b.File, r.Name)
		}
	}
	for i := range rs {
		for _, a := range rs[i].Alerts {
			if !slices.Contains(names, a) {
				t.Errorf("%s names the alert %s, which nobody generates", rs[i].File, a)
			}
		}
	}
	for _, q := range sources.CannedQueries(nil, "") {
		if byID[q.Runbook] == nil {
			t.Errorf("the query %s names the runbook %q, which there is not", q.Name, q.Runbook)
		}
	}
}

// --runbooks reads a directory; one that is not there is an error to show, and
// no reason to end.
func TestRunbookDir(t *testing.T) {
	if x := (&invocation{}).runbookDir(); len(x.Runbooks) > 0 || len(x.Errors) > 0 {
		t.Errorf("without a directory: %+v", x)
	}
	dir := t.TempDir()
	x := (&invocation{runbooks: filepath.Join(dir, "nowhere")}).runbookDir()
	if len(x.Errors) != 1 || !strings.Contains(x.Errors[0].Error(), "name a directory of files *.md") {
		t.Errorf("no directory: %v", x.Errors)
	}
	own, err := os.ReadFile("runbooks/provider-5xx.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"own.md": string(own), "bad.md": "no runbook", "notes.txt": "nothing"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	x = (&invocation{runbooks: dir}).runbookDir()
	if len(x.Runbooks) != 1 || x.Runbooks[0].ID != "provider-5xx" || len(x.Errors) != 1 || !strings.HasPrefix(x.Errors[0].Error(), filepath.Join(dir, "bad.md")+":1: ") {
		t.Errorf("%d runbooks, errors %v", len(x.Runbooks), x.Errors)
	}
}

// codeOf are the pieces of code in the text of every embedded runbook, each with
// where it is.
func codeOf(t *testing.T) map[string]string {
	t.Helper()
	rs, err := runbooks.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	code := regexp.MustCompile("`([^`]+)`")
	where := make(map[string]string)
	for i := range rs {
		for _, s := range rs[i].Sections {
			for _, b := range s.Blocks {
				for _, p := range b.Paragraphs {
					for _, m := range code.FindAllStringSubmatch(p, -1) {
						where[m[1]] = rs[i].File + ": " + s.Title
					}
				}
			}
		}
	}
	return where
}

// Every command line of a runbook is one: it fails here for want of a gateway,
// if it fails, and not for how it is written.
func TestRunbookCommands(t *testing.T) {
	dir := t.TempDir()
	conf := filepath.Join(dir, "failback.yaml")
	if err := os.WriteFile(conf, []byte(`
listen: 127.0.0.1:0
upstreams: {a: {dialect: openai, base_url: "https://api.example/v1", api_key: literal-key}}
models: {m: {candidates: [{upstream: a}]}}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	refused := func(line string) string {
		line, _, _ = strings.Cut(line, " > ")
		args := strings.Fields(line)[1:]
		c, _ := find(args)
		if c == nil || c.name == "" {
			return "there is no such command"
		}
		in := &invocation{flags: pflag.NewFlagSet("", pflag.ContinueOnError)}
		c.flags(in)
		if in.flags.Lookup("connect") != nil {
			args = append(args, "--connect", "unix:"+filepath.Join(dir, "nobody"))
		}
		var out bytes.Buffer
		if run(t.Context(), append(args, "--config", conf), io.Discard, &out) == exitUsage {
			return out.String()
		}
		return ""
	}
	for _, line := range []string{
		"failback", "failback restart", "failback passthrough on --for 30m", "failback passthrough on --order A --until 30m", "failback breaker UPSTREAM:text",
		"failback incident close", "failback incident report ID --override", "failback reload now",
	} {
		if refused(line) == "" {
			t.Errorf("%s is taken", line)
		}
	}
	n := 0
	for code, where := range codeOf(t) {
		if code != "failback" && !strings.HasPrefix(code, "failback ") {
			continue
		}
		n++
		if why := refused(code); why != "" {
			t.Errorf("%s: %s: %s", where, code, why)
		}
	}
	if n < 8 {
		t.Errorf("only %d command lines are found", n)
	}
}

// What a runbook writes as a key of the configuration or as a metric is one.
func TestRunbookSettings(t *testing.T) {
	read := func(name string) string {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	settings, metrics := read("docs/configuration.md"), read("docs/metrics.md")
	form := regexp.MustCompile(`^([a-z_]+(?:\.[A-Za-z_]+)+)$|^([a-z_]+(?:\.[A-Za-z_]+)*): \S+$|^([a-z]+_[a-z_]+)$`)
	others := []string{"max_retries"} // of clients' SDKs
	there := func(code string) bool {
		if strings.HasPrefix(code, "failback_") || strings.HasPrefix(code, "ai_") {
			return strings.Contains(metrics, "`"+code)
		}
		m := form.FindStringSubmatch(code)
		if m == nil || slices.Contains(others, code) {
			return true
		}
		key := strings.ReplaceAll(m[1]+m[2]+m[3], "NAME", "<name>")
		return strings.Contains(settings, "`"+key+"`") || strings.Contains(settings, "."+key+"`")
	}
	for _, code := range []string{"errors.credentials", "fallbacks: never", "shutdown_graces", "failback_nothing_total"} {
		if there(code) {
			t.Errorf("%s is said to be there", code)
		}
	}
	for code, where := range codeOf(t) {
		if !there(code) {
			t.Errorf("%s: there is no %s", where, code)
		}
	}
}
