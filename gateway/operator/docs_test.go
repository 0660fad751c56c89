package operator

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"failback/gateway/operator/api"
)

func reference(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", "api.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// section is the text under a heading, up to the next one of its level or above.
func section(t *testing.T, doc, heading string) string {
	t.Helper()
	_, rest, ok := strings.Cut("\n"+doc, "\n"+heading+"\n")
	if !ok {
		t.Fatalf("docs/api.md has no heading %q", heading)
	}
	level := len(heading) - len(strings.TrimLeft(heading, "#"))
	end := regexp.MustCompile(`(?m)^#{1,` + string(rune('0'+level)) + `} `).FindStringIndex(rest)
	if end != nil {
		rest = rest[:end[0]]
	}
	return rest
}

var tableRow = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|")

// names are the words in the first column of the tables of text.
func names(text string) []string {
	var l []string
	for _, m := range tableRow.FindAllStringSubmatch(text, -1) {
		l = append(l, m[1])
	}
	return l
}

// same compares two sets and says what is on one side only.
func same(t *testing.T, what string, code, doc []string) {
	t.Helper()
	for _, n := range code {
		if !slices.Contains(doc, n) {
			t.Errorf("%s: %q is not in docs/api.md", what, n)
		}
	}
	for _, n := range doc {
		if !slices.Contains(code, n) {
			t.Errorf("%s: docs/api.md has %q, which does not exist", what, n)
		}
	}
	if len(code) == 0 {
		t.Errorf("%s: nothing to compare", what)
	}
}

// jsonFields are the names v's fields have in JSON, without those of embedded structs.
func jsonFields(v any) []string {
	var l []string
	for f := range reflect.TypeOf(v).Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			l = append(l, name)
		}
	}
	return l
}

func TestReferenceHasEveryRoute(t *testing.T) {
	routes := section(t, reference(t), "### Routes")
	var code, doc []string
	for _, rt := range table() {
		name := rt.method + " " + rt.path
		code = append(code, name)
		text := section(t, routes, "#### `"+name+"`")
		if !strings.HasPrefix(strings.TrimSpace(text), "Role: "+rt.role+".") {
			t.Errorf("%s: its role is %s", name, rt.role)
		}
		if rt.action != "" {
			m := regexp.MustCompile(`Fields: ([^.]+)\.`).FindStringSubmatch(text)
			if m == nil {
				t.Errorf("%s: no fields", name)
				continue
			}
			var said []string
			for _, w := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(m[1], -1) {
				said = append(said, w[1])
			}
			same(t, name, fields[rt.action], said)
		}
	}
	for _, m := range regexp.MustCompile("(?m)^#### `([^`]+)`$").FindAllStringSubmatch(routes, -1) {
		doc = append(doc, m[1])
	}
	same(t, "routes", code, doc)
}

// The parameters of every GET: those in the reference are taken, no other is.
func TestReferenceHasEveryParameter(t *testing.T) {
	ts := start(t, nil)
	values := map[string]string{
		"limit": "1", "task": "x", "status": "human", "provider": "x", "request_id": "x", "since": "2026-01-01T00:00:00Z",
		"after": "0", "decisions": "",
	}
	doc := section(t, reference(t), "### Routes")
	for _, rt := range table() {
		// What is kept has the parameters of other APIs.
		if rt.method != http.MethodGet || rt.role != api.RoleViewer || !strings.HasPrefix(rt.path, apiPrefix) {
			continue
		}
		said := names(section(t, doc, "#### `GET "+rt.path+"`"))
		for name, value := range values {
			status, body := ts.raw(t, "GET", rt.path+"?"+name+"="+value, "", "Authorization", "Bearer "+vicToken)
			if ok := slices.Contains(said, name); ok != (status == 200) {
				t.Errorf("%s?%s: %d %s, in the reference: %v", rt.path, name, status, body, ok)
			}
		}
		for _, name := range said {
			if _, ok := values[name]; !ok {
				t.Errorf("%s: the reference has a parameter %q", rt.path, name)
			}
		}
	}
}

func TestReferenceHasEveryCommandField(t *testing.T) {
	same(t, "command", jsonFields(api.Command{}), names(section(t, reference(t), "### Commands")))
}

func TestReferenceHasEveryErrorCode(t *testing.T) {
	text := section(t, reference(t), "### Errors")
	var code []string
	for _, value := range constants(t, "Code") {
		code = append(code, value)
	}
	same(t, "errors", append(code, jsonFields(api.Error{})...), names(text))
	for _, c := range code {
		row := regexp.MustCompile("(?m)^\\| `" + c + "` \\| ([0-9, ]+) \\|").FindStringSubmatch(text)
		if row == nil {
			t.Errorf("%s has no status", c)
			continue
		}
		status := regexp.MustCompile(`\d+`).FindString(row[1])
		if want := statusOf(c); status != strconv.Itoa(want) {
			t.Errorf("%s: the reference says %s, the code %d", c, status, want)
		}
	}
}

// constants are the string constants of package api whose name begins with prefix.
func constants(t *testing.T, prefix string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, f := range parsed(t) {
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			for i, name := range spec.Names {
				if i < len(spec.Values) && strings.HasPrefix(name.Name, prefix) {
					if lit, ok := spec.Values[i].(*ast.BasicLit); ok {
						found[name.Name] = strings.Trim(lit.Value, `"`)
					}
				}
			}
			return true
		})
	}
	return found
}

func parsed(t *testing.T) []*ast.File {
	t.Helper()
	paths, err := filepath.Glob("api/*.go")
	if err != nil {
		t.Fatal(err)
	}
	var l []*ast.File
	for _, p := range paths {
		if strings.HasSuffix(p, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), p, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		l = append(l, f)
	}
	return l
}

// Every type that goes over the wire has its table, with every field.
func TestReferenceHasEveryType(t *testing.T) {
	doc := section(t, reference(t), "### Types")
	values := map[string]any{}
	for _, v := range []any{
		api.Number{}, api.State{}, api.You{}, api.Upstream{}, api.TaskRate{}, api.NextStep{}, api.Undo{}, api.Breaker{},
		api.Weight{}, api.Model{}, api.Candidate{}, api.Task{}, api.Session{}, api.RetryBudget{}, api.Config{}, api.Setting{},
		api.Passthrough{}, api.Traffic{}, api.Log{}, api.AuditStatus{}, api.Sources{}, api.Source{}, api.Limit{}, api.Failback{}, api.FailbackStep{},
		api.SharedFault{}, api.Dependency{}, api.Job{}, api.Ping{}, api.Notify{}, api.Store{}, api.Signal{}, api.Probe{}, api.Evidence{}, api.EvidenceRow{}, api.Plan{}, api.Decisions{}, api.Decision{}, api.DecisionCandidate{},
		api.DecisionAttempt{}, api.Events{}, api.Event{}, api.Hello{}, api.Dropped{}, api.AuditTrail{}, api.AuditEntry{},
		api.Result{}, api.ReloadItem{}, api.Command{}, api.Error{}, api.Peer{}, api.Traces{}, api.Budget{}, api.BudgetSpend{}, api.Domain{}, api.DomainGroup{},
		api.Incidents{}, api.IncidentHead{}, api.Incident{}, api.Milestones{}, api.IncidentEntry{}, api.ClosingQuestion{},
		api.Layer{}, api.Tally{}, api.IncidentRequests{},
	} {
		values[reflect.TypeOf(v).Name()] = v
	}
	// Those that go over the wire are those with JSON names.
	var wire []string
	for _, f := range parsed(t) {
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if st, ok := spec.Type.(*ast.StructType); ok && slices.ContainsFunc(st.Fields.List, func(f *ast.Field) bool { return f.Tag != nil }) {
				wire = append(wire, spec.Name.Name)
			}
			return true
		})
	}
	if listed := slices.Sorted(maps.Keys(values)); !slices.Equal(listed, slices.Sorted(slices.Values(wire))) {
		t.Fatalf("this test knows %v, the package has %v", listed, wire)
	}
	var headings []string
	for _, m := range regexp.MustCompile(`(?m)^#### (\w+)$`).FindAllStringSubmatch(doc, -1) {
		headings = append(headings, m[1])
	}
	headings = append(headings, "Command", "Error") // have sections of their own
	same(t, "types", wire, headings)
	for name, v := range values {
		if name != "Command" && name != "Error" && slices.Contains(headings, name) {
			same(t, name, jsonFields(v), names(section(t, doc, "#### "+name)))
		}
	}
}

// The gateway's own headers of the client API.
func TestReferenceHasEveryClientHeader(t *testing.T) {
	paths, err := filepath.Glob("../*.go")
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) == 0 {
		t.Fatal("no client API in this tree")
	}
	header := regexp.MustCompile(`"(Failback-[A-Za-z-]+)"`)
	seen := map[string]bool{}
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(p, "_test.go") {
			continue
		}
		for _, m := range header.FindAllStringSubmatch(string(b), -1) {
			seen[m[1]] = true
		}
	}
	doc := reference(t)
	said := names(section(t, doc, "### Request headers") + section(t, doc, "### Response headers"))
	said = slices.DeleteFunc(said, func(n string) bool { return !strings.HasPrefix(n, "Failback-") })
	same(t, "headers", slices.Collect(maps.Keys(seen)), said)
}
