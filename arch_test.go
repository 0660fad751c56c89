// Package main_test checks the shape of the module: which package may import
// which, and what may not be imported at all.
package main_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "failback"

// arrows says which packages of this module a package may import itself. A
// package that is not listed fails the test: decide its arrows first.
var arrows = map[string][]string{
	"": {"gateway", "gateway/config", "gateway/decision", "gateway/demo", "gateway/heap", "gateway/incident", "gateway/operator/api", "launch", "runbooks", "sources", "sources/embedded", "sources/filelog", "sources/rules", "ui", "ui/text"},

	"gateway": {"gateway/breaker", "gateway/budget", "gateway/config", "gateway/decision", "gateway/health", "gateway/health/dependency",
		"gateway/health/probe", "gateway/incident", "gateway/internal/panicsite", "gateway/jobs", "gateway/notify", "gateway/operator", "gateway/operator/api", "gateway/policy",
		"gateway/router", "gateway/store", "gateway/telemetry", "gateway/telemetry/spans", "gateway/tracecontext", "gateway/traffic", "gateway/traffic/evidence", "gateway/upstream",
		"gateway/wire"},
	"gateway/store":              {"gateway/internal/filelock"},
	"gateway/internal/filelock":  {},
	"gateway/health":             {"gateway/decision"},
	"gateway/health/dependency":  {"gateway/internal/outbound"},
	"gateway/health/probe":       {"gateway/decision"},
	"gateway/incident":           {"gateway/decision", "gateway/operator/api"},
	"gateway/jobs":               {"gateway/internal/outbound"},
	"gateway/notify":             {"gateway/decision", "gateway/internal/outbound"},
	"gateway/traffic/evidence":   {"gateway/decision"},
	"gateway/internal/outbound":  {},
	"gateway/internal/panicsite": {},
	"gateway/heap":               {},
	"gateway/decision":           {},
	"gateway/policy":             {"gateway/decision"},
	"gateway/config":             {"gateway/decision"},
	"gateway/wire":               {"gateway/decision"},
	"gateway/breaker":            {"gateway/decision"},
	"gateway/budget":             {"gateway/decision", "gateway/operator/api", "gateway/telemetry"},
	"gateway/traffic":            {"gateway/decision"},
	"gateway/demo":               {"gateway/decision"},
	"gateway/upstream":           {"gateway/decision", "gateway/wire"},
	"gateway/telemetry":          {"gateway/decision", "gateway/operator/api"},
	"gateway/operator":           {"gateway/decision", "gateway/internal/filelock", "gateway/internal/panicsite", "gateway/operator/api", "gateway/telemetry"},
	"gateway/operator/api":       {},
	"gateway/router": {"gateway/breaker", "gateway/decision", "gateway/health", "gateway/internal/panicsite", "gateway/policy", "gateway/tracecontext", "gateway/traffic",
		"gateway/upstream", "gateway/wire"},
	"gateway/tracecontext":    {"gateway/decision"},
	"gateway/telemetry/spans": {"gateway/decision", "gateway/internal/outbound", "gateway/operator/api", "gateway/tracecontext"},

	"launch":                   {},
	"sources":                  {"gateway/operator/api", "sources/promql"},
	"sources/promql":           {},
	"sources/logql":            {"sources/pattern"},
	"sources/rules":            {"gateway/operator/api", "sources", "sources/promql"},
	"sources/pattern":          {},
	"sources/filelog":          {"gateway/operator/api", "sources", "sources/logql"},
	"sources/embedded":         {"gateway/operator/api", "sources/embedded/logs", "sources/embedded/metrics"},
	"sources/embedded/gate":    {},
	"sources/embedded/logs":    {"gateway/operator/api", "sources/embedded/gate", "sources/logql"},
	"sources/embedded/metrics": {"gateway/operator/api", "sources/embedded/gate", "sources/pattern"},
	"runbooks":                 {"gateway/operator/api"},
	"ui":                       {"gateway/operator/api", "runbooks", "sources", "ui/text"},
	"ui/text":                  {"gateway/operator/api", "sources"},

	// Measures the built program from outside.
	"bench": {},

	// For tests alone; see helpers.
	"e2e":                       {},
	"gateway/internal/memnet":   {},
	"internal/bubble":           {},
	"gateway/internal/otlptest": {},
	"sources/gatewaytest":       {"gateway/operator/api"},
}

// helpers are packages that only tests import.
var helpers = []string{"e2e", "gateway/internal/memnet", "gateway/internal/otlptest", "internal/bubble", "sources/gatewaytest"}

// reach says how far a denial looks.
type reach uint8

const (
	direct reach = iota // the package's own imports
	deep                // everything that ends up in the program with it
	tests               // as deep, and the imports of its tests
)

// denied is what a package and all below it must not import.
type denied struct {
	from string // "" for every package of the module
	save string // and below it is excepted; "" for none
	to   []string
	// but are exceptions below to.
	but   []string
	reach reach
	why   string
}

var denials = []denied{
	{to: []string{"github.com/grafana/loki", "github.com/grafana/grafana", "github.com/grafana/tempo", "github.com/grafana/mimir", "go.k6.io/k6", "github.com/grafana/k6"},
		reach: tests, why: "AGPL-3.0 would put the whole gateway under it, also from tests"},
	{to: []string{"github.com/openai/openai-go", "github.com/anthropics/anthropic-sdk-go"},
		reach: deep, why: "the SDKs retry by themselves and there is one retry owner: they are clients in tests"},
	{to: []string{"unsafe"}, reach: direct, why: "nothing here needs it"},
	{to: []string{"testing"}, reach: direct, why: "test code does not belong in the program"}, // Prometheus's storage drags it in

	{from: "gateway", to: []string{module + "/ui", module + "/sources", module + "/launch"},
		reach: tests, why: "the gateway does not know who looks at it"},
	{from: "gateway", to: []string{"charm.land", "github.com/charmbracelet", "golang.org/x/term"},
		reach: deep, why: "no process holds a terminal and client traffic"},
	{from: "ui", to: []string{module + "/gateway"}, but: []string{module + "/gateway/operator/api"},
		reach: deep, why: "the console has no private door: it uses the operator API"},
	{from: "sources", to: []string{module + "/gateway"}, but: []string{module + "/gateway/operator/api"},
		reach: deep, why: "the console has no private door: it uses the operator API"},
	{from: "ui", to: []string{"github.com/prometheus"}, reach: direct, why: "the console asks for numbers through sources"},
	{from: "ui", to: []string{"github.com/prometheus/prometheus", "github.com/prometheus/client_golang/prometheus"}, reach: deep, why: "the console asks for numbers over HTTP, it keeps none"},
	{to: []string{"github.com/prometheus/prometheus/web", "github.com/prometheus/prometheus/scrape", "github.com/prometheus/prometheus/discovery/install", "k8s.io/client-go/kubernetes"},
		reach: deep, why: "they drag in every service discovery; the storage alone needs enough"},
	{from: "gateway", to: []string{"github.com/prometheus/prometheus"}, reach: deep, why: "what keeps numbers stands beside the gateway"},
	{to: []string{"github.com/nats-io"}, save: "gateway/store", reach: direct, why: "how things are kept is the store's affair"},
	{from: "launch", to: []string{module}, reach: deep, why: "starting a process needs to know nothing of what it does"},

	{from: "gateway/decision", to: []string{module}, reach: deep, why: "the vocabulary stands below everything"},
	{from: "gateway/policy", to: []string{"context", "io", "log", "log/slog", "math/rand", "math/rand/v2", "net", "os", "sync", "sync/atomic", "syscall"},
		but:   []string{"net/http"}, // names of statuses; see TestPolicyHasNoClock
		reach: direct, why: "policy is pure: no I/O, no chance, no shared state"},
	{from: "gateway/decision", to: []string{"github.com/prometheus"}, reach: deep, why: "rendering an outcome is telemetry's work"},
	{from: "gateway/policy", to: []string{"github.com/prometheus"}, reach: deep, why: "rendering an outcome is telemetry's work"},
	{from: "gateway/router", to: []string{"github.com/prometheus"}, reach: deep, why: "rendering an outcome is telemetry's work"},
	{from: "gateway/operator/api", to: []string{"github.com/prometheus", module}, reach: deep, why: "whoever talks to a gateway should not have to build one"},
}

// goPackage is what `go list -json` says of a package.
type goPackage struct {
	ImportPath   string
	Dir          string
	Name         string
	Doc          string
	GoFiles      []string
	Imports      []string
	Deps         []string
	TestImports  []string
	XTestImports []string
	Error        *struct{ Err string }
}

// local returns the path inside the module.
func (p goPackage) local() string {
	return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
}

// goTool runs the go command in the module's root.
func goTool(args ...string) ([]byte, error) {
	cmd := exec.Command("go", args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, errors.New("go " + strings.Join(args, " ") + ": " + err.Error() + "\n" + stderr.String())
	}
	return out, nil
}

var load = sync.OnceValues(func() ([]goPackage, error) {
	out, err := goTool("list", "-json", "./...")
	if err != nil {
		return nil, err
	}
	var all []goPackage
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := d.Decode(&p); err == io.EOF {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
})

func packages(t *testing.T) []goPackage {
	t.Helper()
	all, err := load()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatal("go list finds no package")
	}
	return all
}

// under reports whether path is prefix or lies below it.
func under(path, prefix string) bool {
	return prefix == "" || path == prefix || strings.HasPrefix(path, prefix+"/")
}

func underAny(path string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return under(path, p) })
}

// arrowBreaches says which imports of p the table of arrows does not have.
func arrowBreaches(p goPackage) []string {
	allowed, known := arrows[p.local()]
	if !known {
		return []string{p.ImportPath + " is not in the table of arrows: add it with what it may import"}
	}
	var b []string
	for _, i := range p.Imports {
		to, ours := strings.CutPrefix(i, module+"/")
		if ours && !slices.Contains(allowed, to) {
			b = append(b, p.ImportPath+" imports "+i+"; of this module it may import: "+strings.Join(allowed, ", "))
		}
	}
	return b
}

// denialBreaches says which imports of p are denied, and why.
func denialBreaches(p goPackage) []string {
	if slices.Contains(helpers, p.local()) {
		return nil
	}
	var b []string
	for _, d := range denials {
		if !under(p.local(), d.from) || d.save != "" && under(p.local(), d.save) {
			continue
		}
		imports := p.Imports
		if d.reach >= deep {
			imports = p.Deps
		}
		if d.reach >= tests {
			imports = slices.Concat(imports, p.TestImports, p.XTestImports)
		}
		for _, i := range imports {
			if underAny(i, d.to) && !underAny(i, d.but) && i != p.ImportPath {
				b = append(b, p.ImportPath+" imports "+i+", itself or by others: "+d.why)
			}
		}
	}
	return b
}

func TestArrowsPointOneWay(t *testing.T) {
	for _, p := range packages(t) {
		for _, b := range arrowBreaches(p) {
			t.Error(b)
		}
	}
}

func TestDeniedImports(t *testing.T) {
	for _, p := range packages(t) {
		for _, b := range denialBreaches(p) {
			t.Error(b)
		}
	}
}

// Policy may speak of durations but not of now, and name HTTP statuses but do
// no HTTP.
func TestPolicyHasNoClock(t *testing.T) {
	clock := []string{"Now", "Since", "Until", "After", "AfterFunc", "Sleep", "Tick", "NewTimer", "NewTicker"}
	for _, p := range packages(t) {
		if p.local() != "gateway/policy" {
			continue
		}
		for _, f := range p.GoFiles {
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, filepath.Join(p.Dir, f), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				s, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				x, ok := s.X.(*ast.Ident)
				switch {
				case !ok:
				case x.Name == "time" && slices.Contains(clock, s.Sel.Name):
					t.Errorf("%s: time.%s: policy is told how long, it has no clock", fset.Position(s.Pos()), s.Sel.Name)
				case x.Name == "http" && !strings.HasPrefix(s.Sel.Name, "Status"):
					t.Errorf("%s: http.%s: policy is pure", fset.Position(s.Pos()), s.Sel.Name)
				}
				return true
			})
		}
	}
}

func TestEveryPackageHasAComment(t *testing.T) {
	for _, p := range packages(t) {
		if len(p.GoFiles) == 0 {
			continue // tests alone
		}
		want := "Package " + p.Name + " "
		if p.Name == "main" {
			want = "" // a command's comment begins as it likes
		}
		if p.Doc == "" || !strings.HasPrefix(p.Doc, want) {
			t.Errorf("%s: the package comment is %q; it says in its first sentence what the package owns", p.ImportPath, p.Doc)
		}
	}
}

// The map of CONTRIBUTING.md names every room.
func TestEveryPackageIsOnTheMap(t *testing.T) {
	page, err := os.ReadFile("CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(page), "```\n")
	rooms, _, _ := strings.Cut(after, "```")
	for _, p := range packages(t) {
		if room := path.Base(p.ImportPath); !regexp.MustCompile(`\b`+room+`\b`).MatchString(rooms) && p.Name != "main" {
			t.Errorf("%s is not there", p.ImportPath)
		}
	}
}

// Nothing but what the go command selects may be built: no replace, and none
// of the modules denied above, not even as a requirement.
func TestModuleFile(t *testing.T) {
	out, err := goTool("mod", "edit", "-json")
	if err != nil {
		t.Fatal(err)
	}
	var mod struct {
		Module  struct{ Path string }
		Require []struct{ Path string }
		Replace []struct{ Old struct{ Path string } }
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		t.Fatal(err)
	}
	if mod.Module.Path != module {
		t.Errorf("the module is named %q, not %q", mod.Module.Path, module)
	}
	for _, r := range mod.Replace {
		t.Errorf("go.mod replaces %s: whoever builds this must get what its go.mod says", r.Old.Path)
	}
	for _, d := range denials {
		if d.reach != tests || d.from != "" {
			continue
		}
		for _, r := range mod.Require {
			if underAny(r.Path, d.to) {
				t.Errorf("go.mod requires %s: %s", r.Path, d.why)
			}
		}
	}
	if _, err := os.Stat("go.work"); err == nil {
		t.Error("go.work would build something else than go.mod says")
	}
}

// The tables must agree with each other, or a rule would never bind.
func TestTablesAgree(t *testing.T) {
	for from, allowed := range arrows {
		for _, to := range allowed {
			if _, known := arrows[to]; !known {
				t.Errorf("%s may import %s, which has no arrows", from, to)
			}
			if to == from || slices.Contains(arrows[to], from) {
				t.Errorf("%s and %s may import each other", from, to)
			}
			if slices.Contains(helpers, to) {
				t.Errorf("%s may import %s, which is for tests", from, to)
			}
		}
	}
	for _, d := range denials {
		if d.why == "" || len(d.to) == 0 {
			t.Errorf("a denial without a reason or an object: %+v", d)
		}
		for _, b := range d.but {
			if !underAny(b, d.to) {
				t.Errorf("%s is an exception to nothing", b)
			}
		}
	}
}

// The rules are tried on imports that break them, and on some that do not.
func TestRulesBind(t *testing.T) {
	for _, tc := range []struct {
		p  goPackage
		ok bool
	}{
		{goPackage{ImportPath: "failback/gateway/policy", Imports: []string{"failback/gateway/decision", "time"}}, true},
		{goPackage{ImportPath: "failback/gateway/policy", Imports: []string{"failback/gateway/wire"}}, false},
		{goPackage{ImportPath: "failback/gateway/policy", Imports: []string{"os"}}, false},
		{goPackage{ImportPath: "failback/gateway/unheard"}, false},
		{goPackage{ImportPath: "failback/gateway/router", Imports: []string{"failback/gateway/internal/memnet"}}, false},
		{goPackage{ImportPath: "failback/gateway/router", XTestImports: []string{"failback/gateway/internal/memnet", "testing"}}, true},
		{goPackage{ImportPath: "failback/gateway", XTestImports: []string{"failback/ui"}}, false},
		{goPackage{ImportPath: "failback/gateway", Deps: []string{"charm.land/bubbletea/v2"}}, false},
		{goPackage{ImportPath: "failback", Imports: []string{"failback/ui", "failback/gateway"}, Deps: []string{"charm.land/bubbletea/v2"}}, true},
		{goPackage{ImportPath: "failback/ui", Deps: []string{"failback/gateway/operator/api"}}, true},
		{goPackage{ImportPath: "failback/ui", Deps: []string{"failback/gateway/operator"}}, false},
		{goPackage{ImportPath: "failback/ui", Imports: []string{"github.com/prometheus/client_golang/api"}}, false},
		{goPackage{ImportPath: "failback/ui", Deps: []string{"github.com/prometheus/prometheus/tsdb"}}, false},
		{goPackage{ImportPath: "failback/gateway", Deps: []string{"github.com/prometheus/prometheus/tsdb"}}, false},
		{goPackage{ImportPath: "failback/launch", Imports: []string{"failback/gateway/config"}}, false},
		{goPackage{ImportPath: "failback/sources", TestImports: []string{"github.com/grafana/loki/v3/pkg/logql"}}, false},
		{goPackage{ImportPath: "failback/gateway/wire", TestImports: []string{"github.com/openai/openai-go/v3"}}, true},
		{goPackage{ImportPath: "failback/gateway/wire", Deps: []string{"github.com/openai/openai-go/v3"}}, false},
		{goPackage{ImportPath: "failback/gateway/wire", Imports: []string{"unsafe"}}, false},
	} {
		breaches := append(arrowBreaches(tc.p), denialBreaches(tc.p)...)
		if (len(breaches) == 0) != tc.ok {
			t.Errorf("%+v: breaches %q", tc.p, breaches)
		}
	}
}
