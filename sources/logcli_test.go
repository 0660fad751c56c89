package sources

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// hostile are strings that a shell, a terminal or a query language would like
// to take for more than text.
var hostile = []string{
	"", " ", "plain", "a b", "it's", `'`, `''`, `\`, `\'`, `"`, "`id`", "$(id)", "$HOME", "${IFS}", "a;b", "a|b", "a&b", "a>b", "*", "~", "#x", "!x", "-x", "--",
	"a\nb", "a\r\nb", "tab\there", "\x1b[201~rm -rf /\r", "\x1b]52;c;eA==\a", "\u202Eevil", "\u200b", "bell\a", "ümlaut", "日本", "🙂", "\xff\xfe", `a\nb`, "{}", "[5m]", "a=b", "%s",
	`{service_name="failback"} | json | task_type!~"it's|\\.x"`, "x' --addr=http://evil '", `"} or {x="`, "\x00",
}

// needBash is where bash is; without it the test is skipped, and fails in CI.
func needBash(t *testing.T) string {
	t.Helper()
	bash, err := exec.LookPath("bash")
	switch {
	case err == nil:
	case os.Getenv("CI") == "true":
		t.Fatal("bash is missing: it reads the words that are quoted for it")
	default:
		t.Skip("requires bash")
	}
	return bash
}

// A quoted word is the same word after a shell has read it.
func TestShellWord(t *testing.T) {
	for _, shell := range []string{"bash", "sh", "zsh"} {
		path, err := exec.LookPath(shell)
		if shell == "bash" {
			path, err = needBash(t), nil
		}
		if err != nil {
			continue // the others read a word as bash does, where they are
		}
		for _, s := range hostile {
			word := shellWord(s)
			for _, r := range word {
				if r < ' ' || r == 0x7f || r == '\u202e' || r == '\u200b' {
					t.Errorf("%q is quoted as %q, which acts on a terminal", s, word)
				}
			}
			if strings.Contains(s, "\x00") || strings.HasPrefix(word, "$") && shell == "sh" {
				continue // no argument can hold a NUL; $'…' is beyond some sh
			}
			cmd := exec.Command(path, "-c", "printf %s. "+word)
			cmd.Env = []string{"LC_ALL=C", "HOME=/nowhere"}
			out, err := cmd.Output()
			if err != nil || string(out) != s+"." {
				t.Errorf("%s reads %s, quoted from %q, as %q: %v", shell, word, s, out, err)
			}
		}
	}
}

func TestLogcli(t *testing.T) {
	start := time.Date(2026, 11, 30, 4, 0, 0, 123, time.FixedZone("local", 7200))
	tests := []struct {
		name string
		q    LogQuery
		want string
	}{
		{
			"lines", LogQuery{Query: `{service_name="failback"} |= "it's"`, Start: start, End: start.Add(time.Hour), Limit: 20},
			`logcli query --timezone=UTC --from=2026-11-30T02:00:00.000000123Z --to=2026-11-30T03:00:00.000000123Z --limit=20 '{service_name="failback"} |= "it'\''s"'`,
		},
		{
			"forward, with a step, at an address", LogQuery{Query: "x", Start: start, End: start.Add(time.Hour), Forward: true, Step: time.Minute, Addr: "http://loki:3100/a b"},
			`logcli '--addr=http://loki:3100/a b' query --timezone=UTC --from=2026-11-30T02:00:00.000000123Z --to=2026-11-30T03:00:00.000000123Z --forward --step=1m0s --limit=500 x`,
		},
		{
			"numbers", LogQuery{Query: "sum(x)", End: start, Instant: true},
			`logcli instant-query --now=2026-11-30T02:00:00.000000123Z --limit=500 'sum(x)'`,
		},
		{
			"a query that looks like a flag", LogQuery{Query: "-1 * x", End: start, Instant: true},
			`logcli instant-query --now=2026-11-30T02:00:00.000000123Z --limit=500 -- '-1 * x'`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.q.Logcli(); got != tt.want {
				t.Errorf(" got %s\nwant %s", got, tt.want)
			}
		})
	}
}

// Whatever the query holds, it is one argument of the command, and the last.
func TestLogcliOfHostileQueries(t *testing.T) {
	bash := needBash(t)
	for _, s := range hostile {
		if strings.Contains(s, "\x00") {
			continue
		}
		q := LogQuery{Query: s, Addr: "http://loki/" + s, Start: time.Unix(1, 0), End: time.Unix(2, 0)}
		cmd := exec.Command(bash, "-c", `logcli() { printf '%s\0' "$@"; }; `+q.Logcli())
		cmd.Env = []string{"LC_ALL=C"}
		out, err := cmd.Output()
		if err != nil {
			t.Errorf("%q: %v", s, err)
			continue
		}
		args := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
		want := []string{"--addr=http://loki/" + s, "query", "--timezone=UTC", "--from=1970-01-01T00:00:01Z", "--to=1970-01-01T00:00:02Z", "--limit=500"}
		if strings.HasPrefix(s, "-") {
			want = append(want, "--")
		}
		if want = append(want, s); strings.Join(args, "\x00") != strings.Join(want, "\x00") {
			t.Errorf("%q: arguments %q", s, args)
		}
	}
}
