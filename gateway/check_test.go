package gateway

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"failback/gateway/config"
)

var updateCheck = flag.Bool("update", false, "write testdata/check")

// checked is the report of a file below testdata, without what changes with
// every key that is added.
func checked(t *testing.T, path string) Report {
	t.Helper()
	cfg, err := config.Load(t.Context(), config.Source{Path: path, Env: func(k string) (string, bool) { return "value-of-" + k, strings.HasSuffix(k, "_API_KEY") }})
	if err != nil {
		t.Fatal(err)
	}
	r := Check(cfg)
	r.Path, r.Hash = filepath.Base(path), "0123456789abcdef"
	return r
}

// What `failback check` says of the configuration that shows every key, and of
// one whose candidates share what they should not.
func TestCheckGolden(t *testing.T) {
	for name, path := range map[string]string{
		"sample": "config/testdata/sample.yaml",
		"shared": "testdata/check/shared.yaml",
	} {
		t.Run(name, func(t *testing.T) {
			r := checked(t, path)
			j, err := json.MarshalIndent(r, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			for ext, got := range map[string]string{".txt": r.String(), ".json": string(j) + "\n"} {
				golden := "testdata/check/" + name + ext
				if *updateCheck {
					if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
						t.Fatal(err)
					}
					continue
				}
				want, err := os.ReadFile(golden)
				if err != nil {
					t.Fatal(err)
				}
				if got != string(want) {
					t.Errorf("%s differs; if that is meant, run go test ./gateway -run TestCheckGolden -update\ngot\n%s", golden, got)
				}
			}
			for line := range strings.Lines(r.String()) {
				line = strings.TrimSuffix(line, "\n")
				if n := utf8.RuneCountInString(line); n > checkWidth {
					t.Errorf("%d columns: %s", n, line)
				}
				if line != strings.TrimRight(line, " ") {
					t.Errorf("ends in spaces: %q", line)
				}
			}
		})
	}
}

func TestCheckSaysWhatIsShared(t *testing.T) {
	r := checked(t, "testdata/check/shared.yaml")
	domain := func(kind string) ReportDomain {
		i := slices.IndexFunc(r.Domains, func(d ReportDomain) bool { return d.Model == "m" && d.Domain == kind })
		if i < 0 {
			t.Fatalf("no %s", kind)
		}
		return r.Domains[i]
	}
	for kind, want := range map[string]string{
		"dns": domainShared, "egress": domainAccepted, "cloud": domainApart, "billing": domainUnknown,
		"host": domainShared, "credential": domainApart,
	} {
		if got := domain(kind); got.Verdict != want {
			t.Errorf("%s is %s, not %s", kind, got.Verdict, want)
		}
	}
	if d := domain("egress"); d.Accepted != "one NAT until Q2" || d.Finding != "fake-redundancy/m/egress" || len(d.Shared) != 1 || d.Shared[0].Value != "nat-a" {
		t.Errorf("%+v", d)
	}
	// The same endpoint, written in another way.
	if d := domain("host"); len(d.Shared) != 1 || !slices.Equal(d.Shared[0].Upstreams, []string{"a", "b"}) || d.Shared[0].Value != "" {
		t.Errorf("%+v", d)
	}
	if d := domain("billing"); !slices.Equal(d.Unknown, []string{"b", "c"}) || d.Finding != "" {
		t.Errorf("%+v", d)
	}
	// Every finding of fake redundancy is in the report, and the other way round.
	var found, reported []string
	for _, f := range r.Findings {
		if strings.HasPrefix(f.Subject, "fake-redundancy/") {
			found = append(found, f.Subject)
		}
	}
	for _, d := range r.Domains {
		if d.Finding != "" {
			reported = append(reported, d.Finding)
		}
	}
	slices.Sort(found)
	slices.Sort(reported)
	if !slices.Equal(slices.Compact(found), reported) {
		t.Errorf("findings %q, reported %q", found, reported)
	}
}

// What is shown cannot drive a terminal, begin a heading of its own, or widen
// the page.
func TestCheckTextOfHostileWords(t *testing.T) {
	r := Report{
		Path: "f\x1b[2J.yaml", Hash: "h",
		Findings:  []config.Finding{{Severity: config.Warning, Subject: "a/b", Message: "one\n\nFINDINGS 0\r\u202e " + strings.Repeat("word ", 40)}},
		Upstreams: []ReportUpstream{{Name: "a", Owner: "x\nTASK y", Signal: "\u009b2J"}},
	}
	s := r.String()
	for _, line := range strings.Split(s, "\n") {
		if utf8.RuneCountInString(line) > checkWidth || line == "FINDINGS 0" || line == "TASK y" {
			t.Errorf("%q", line)
		}
	}
	if strings.ContainsAny(s, "\x1b\r\u202e\u009b") || !strings.Contains(s, `\u202e`) {
		t.Errorf("%q", s)
	}
	if !strings.Contains(s, "  state boundary  unnamed\n  fallback        primary of nothing\n") {
		t.Errorf("%s", s)
	}
}
