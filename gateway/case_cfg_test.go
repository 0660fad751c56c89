package gateway_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"golang.org/x/tools/txtar"

	"failback/gateway"
	"failback/gateway/config"
	"failback/gateway/internal/memnet"
	"failback/gateway/operator/api"
)

// CFG-01: a configuration that cannot be used is refused whole, whatever is
// wrong with it: nothing of it is in force, and streams and requests go on.
func TestCFG01(t *testing.T) {
	for _, way := range callings {
		if !way.stream {
			continue
		}
		t.Run(way.name, func(t *testing.T) {
			inScene(t, setting{dialect: way.dialect}, func(w *scene) {
				hold := make(chan struct{})
				w.up["A"].plays(func(e *exchange) {
					if !question(e.req.body).Stream {
						ok(e)
						return
					}
					a := replyOf(strings.TrimPrefix(way.path, "/"), e.name, false)
					e.sse()
					e.piece(a.preamble)
					e.piece(a.first)
					<-hold
					e.piece(a.rest)
					e.end()
				})
				streams := w.crowd(20, way.path, way.body, func(g *got) {
					if served(g) != "200 A completed" || len(g.errorFrames()) > 0 {
						w.Errorf("%s: %s", served(g), g.body)
					}
				})
				synctest.Wait()
				whole := strings.Replace(way.body, `,"stream":true`, "", 1)
				good, hash := w.config, w.gw.OperatorState().Config.Hash
				mistakes := []struct{ name, old, new, want string }{
					{"unreadable certificate", "drain_delay: 0s", "drain_delay: 0s\ntls: {cert: none.pem, key: none.key}", "none.pem"},
					{"unreadable key", "api_key: key-of-A", "api_key: file:none.key", "none.key"},
					{"unknown candidate", "upstream: B,", "upstream: BB,", "BB"},
					{"unknown key", "drain_delay", "drain_dellay", "drain_delay"},
					{"one port twice", "drain_delay: 0s", "drain_delay: 0s\noperator: {listen: \"127.0.0.1:80\"}", "operator.listen"},
					{"nothing", string(good), "", "empty"},
					{"not YAML", "models:", "models: [", ""},
				}
				for _, c := range mistakes {
					w.rewrite(c.old, c.new)
					report, err := w.gw.Reload(w.Context(), "test")
					if err == nil || report != nil || !strings.Contains(err.Error(), c.want) {
						w.Errorf("%s: %v, %v", c.name, report, err)
					}
					s := w.gw.OperatorState().Config
					if s.Hash != hash || !strings.Contains(s.LastError, c.want) || s.LastError == "" || s.LastErrorAt.IsZero() {
						w.Errorf("%s: the state says %+v", c.name, s)
					}
					if g := w.call(way.path, whole); served(g) != "200 A completed" {
						w.Errorf("%s: %s: %s", c.name, served(g), g.body)
					}
					w.mu.Lock()
					w.config = good
					w.mu.Unlock()
				}
				told := w.events("config_reload")
				if len(told) != len(mistakes) || slices.ContainsFunc(told, func(e api.Event) bool { return e.Result != "refused" }) {
					w.Errorf("of %d reloads: %+v", len(mistakes), told)
				}
				close(hold)
				streams.Wait()
				if w.asked() != "A27 B0 C0" {
					w.Errorf("asked %s", w.asked())
				}
			})
		})
	}
}

// CFG-03: of a reload that changes what can be changed and what cannot, the
// former is in force and does what it says; both are reported by key.
func TestCFG03(t *testing.T) {
	for _, way := range callings {
		t.Run(way.name, func(t *testing.T) {
			s := setting{dialect: way.dialect, more: "retry: {attempts: 1}\nbreaker: {consecutive: 1000, min_samples: 1000}\n"}
			inScene(t, s, func(w *scene) {
				w.up["A"].plays(failing)
				if g := w.call(way.path, way.body); g.status != 503 || w.asked() != "A1 B0 C0" {
					w.Errorf("%s, asked %s", served(g), w.asked())
				}
				w.rewrite("attempts: 1", "attempts: 3", `"127.0.0.1:80"`, `"127.0.0.1:81"`, "weight: 80", "weight: 95")
				w.up["C"].plays(failing)
				report, err := w.gw.Reload(w.Context(), "test")
				if err != nil {
					w.Fatal(err)
				}
				said := map[string]string{}
				for _, r := range report {
					said[r.Key] = r.Result
				}
				want := map[string]string{"listen": "needs restart", "retry.attempts": "applied", "models.m.candidates[2].weight": "applied"}
				if fmt.Sprint(said) != fmt.Sprint(want) {
					w.Errorf("%v, want %v", said, want)
				}
				// Three attempts, and C before B now.
				if g := w.call(way.path, way.body); served(g) != "200 B degraded_completed" || w.asked() != "A2 B1 C1" {
					w.Errorf("%s, asked %s", served(g), w.asked())
				}
			})
		})
	}
}

// CFG-04: start, reload and check give one verdict in one wording, over all
// mistakes that the configuration's own tests know.
func TestCFG04(t *testing.T) {
	archives, err := filepath.Glob("config/testdata/mistakes/*.txtar")
	if err != nil || len(archives) < 20 {
		t.Fatalf("%d archives, %v", len(archives), err)
	}
	odd := strings.NewReplacer("<TAB>", "\t", "<BOM>", "\ufeff", "<CR>", "\r", "<ESC>", "\x1b", "<FF>", "\xff", "<UTF16>", "\xff\xfel\x00")
	more := []*txtar.Archive{
		// An enum that is left to its default, and values that are wrong only
		// beside defaults.
		{Files: []txtar.File{{Name: "failback.yaml", Data: []byte(plainYAML + "health: {}\nbreaker: {}\n")}}},
		{Files: []txtar.File{{Name: "failback.yaml", Data: []byte(plainYAML + "breaker: {cooldown: 10m}\n")}}},
		{Files: []txtar.File{{Name: "failback.yaml", Data: []byte(plainYAML + "first_output: {floor: 20s}\n")}}},
		{Files: []txtar.File{{Name: "failback.yaml", Data: []byte(plainYAML + "retry: {base: 10s}\n")}}},
		{Files: []txtar.File{{Name: "failback.yaml", Data: []byte(strings.Replace(plainYAML, "127.0.0.1:80", "0.0.0.0:80", 1))}}},
		{Files: []txtar.File{{Name: "failback.yaml", Data: []byte(plainYAML + "operator: {listen: \"127.0.0.1:80\"}\n")}}},
	}
	for _, path := range archives {
		a, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		more = append(more, a)
	}
	said := func(err error) string {
		if err == nil {
			return "ok"
		}
		return err.Error()
	}
	verdicts := map[bool]int{}
	for _, a := range more {
		src := config.Source{Path: filepath.Join(t.TempDir(), "failback.yaml")}
		env := map[string]string{"KEY": "from-the-environment"}
		for _, f := range a.Files {
			switch f.Name {
			case "want":
			case "env", "flags":
				set := env
				if f.Name == "flags" {
					src.Flags = map[string]string{}
					set = src.Flags
				}
				for line := range strings.Lines(string(f.Data)) {
					k, v, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
					set[k] = v
				}
			default:
				if err := os.WriteFile(filepath.Join(filepath.Dir(src.Path), f.Name), []byte(odd.Replace(string(f.Data))), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		src.Env = func(k string) (string, bool) { v, ok := env[k]; return v, ok }
		synctest.Test(t, func(t *testing.T) {
			options := func(load func(context.Context) (*config.Config, error)) gateway.Options {
				n := &memnet.Network{}
				return gateway.Options{
					Stdout: &lines{}, DialContext: n.DialContext, Load: load,
					Listen: func(string, string) (net.Listener, error) { return n.Listen("gateway.test:80") },
				}
			}
			this := func(ctx context.Context) (*config.Config, error) { return config.Load(ctx, src) }
			_, check := this(t.Context())

			started := gateway.New(options(this))
			start := started.StartAlone(t.Context())
			if start == nil {
				defer func() { _ = started.Stop(context.Background()) }()
			}

			now := config.Source{Data: []byte(plainYAML + fmt.Sprintf("data_dir: %q\n", t.TempDir()))}
			reloaded := gateway.New(options(func(ctx context.Context) (*config.Config, error) { return config.Load(ctx, now) }))
			if err := reloaded.StartAlone(t.Context()); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = reloaded.Stop(context.Background()) }()
			now = src
			_, reload := reloaded.Reload(t.Context(), "test")

			verdicts[check == nil]++
			if said(start) != said(check) || said(reload) != said(check) {
				t.Errorf("%s\nstart:  %s\nreload: %s\ncheck:  %s", a.Files[0].Data, said(start), said(reload), said(check))
			}
		})
	}
	if verdicts[true] < 3 || verdicts[false] < 20 {
		t.Errorf("the corpus has %d good and %d bad", verdicts[true], verdicts[false])
	}
}

const plainYAML = `listen: "127.0.0.1:80"
drain_delay: 0s
upstreams:
  a: {dialect: openai, base_url: "http://a.test/v1", api_key: k}
models:
  m: {candidates: [{upstream: a}]}
`

// CFG-06: what is set in two places has one order, which is told with its
// origin; what a request asks for and does not get is told, too.
func TestCFG06(t *testing.T) {
	substitutes := map[string]string{"B": ", substitute: true", "C": ", substitute: true"}
	limited := status(429, `{"error":{"message":"no"}}`, "Retry-After: 1")
	for _, way := range callings {
		// An upstream's own patience goes before the one for all, in both
		// directions; a second is waited for or not.
		for _, c := range []struct {
			global, own string
			asked       int
		}{
			{"", "", 3},
			{"retry: {patience: 0s}\n", "", 1},
			{"retry: {patience: 0s}\n", ", retry: {patience: 1s}", 2}, // and then it is spent
			{"retry: {patience: 1s}\n", ", retry: {patience: 0s}", 1},
			{"", ", retry: {patience: 0s}", 1},
			{"retry: {patience: 0s}\n", ", retry: {cap: 1s}", 1}, // one key of a section takes no other with it
		} {
			t.Run(fmt.Sprintf("%s/%s%s", way.name, c.global, c.own), func(t *testing.T) {
				s := setting{dialect: way.dialect, candidates: substitutes, more: "default_task: {fallback: any}\n" + c.global, upstreams: map[string]string{"A": c.own}}
				inScene(t, s, func(w *scene) {
					w.up["A"].plays(limited)
					if g := w.call(way.path, way.body); served(g) != "200 B degraded_completed" || w.up["A"].asked() != c.asked {
						w.Errorf("%s, A was asked %d times, want %d", served(g), w.up["A"].asked(), c.asked)
					}
				})
			})
		}
		// What a client says of retries changes nothing, and it hears so.
		t.Run(way.name+"/client", func(t *testing.T) {
			inScene(t, setting{dialect: way.dialect, more: "tasks: {t: {fallback: same_model}}\nbreaker: {mode: shadow}\n"}, func(w *scene) {
				w.up["A"].plays(failing)
				for _, c := range []struct {
					body    string
					headers []string
					warns   string
				}{
					{way.body, nil, ""},
					{way.body, []string{"Failback-Task", "t", "Failback-Conversation", "c", "Failback-Turn", "1", "Failback-State-Version", "2", "Failback-Deadline-Ms", "5000"}, ""},
					{way.body, []string{"Failback-Retries", "9"}, "without effect: Failback-Retries"},
					{way.body, []string{"failback-max-switches", "9", "Failback-Attempts", "9"}, "without effect: Failback-Attempts, Failback-Max-Switches"},
					{way.body, []string{"Failback-Deadline-Ms", "5s"}, "without effect: Failback-Deadline-Ms"},
					{way.body, []string{"Failback-Deadline-Ms", "-1"}, "without effect: Failback-Deadline-Ms"},
					{strings.Replace(way.body, "{", `{"metadata":{"failback-retries":"9","failback-turn":"1","other":"x"},`, 1), nil, "without effect: failback-retries"},
					{strings.Replace(way.body, "{", `{"metadata":{"failback-\u001b]0;x":"9"},`, 1), nil, ""},
				} {
					before := w.up["A"].asked()
					g := w.call(way.path, c.body, c.headers...)
					if got := g.header.Get("Failback-Warning"); got != c.warns {
						w.Errorf("%s %v: warning %q, want %q", c.body, c.headers, got, c.warns)
					}
					if n := w.up["A"].asked() - before; n != 1 {
						w.Errorf("%v: A was asked %d times", c.headers, n)
					}
				}
			})
		})
	}
	// What can only be set for all is refused elsewhere.
	inScene(t, setting{}, func(w *scene) {
		for _, key := range []string{"attempts: 2", "max_switches: 1", "max_wait: 1s", "budget: {burst: 1}"} {
			good := w.config
			w.rewrite("api_key: key-of-A", "api_key: key-of-A, retry: {"+key+"}")
			name, _, _ := strings.Cut(key, ":")
			if _, err := w.gw.Reload(w.Context(), "test"); err == nil || !strings.Contains(err.Error(), "retry."+name) {
				w.Errorf("%s of an upstream: %v", key, err)
			}
			w.config = good
		}
	})
	// flag > environment > file > default, each named as the origin.
	for _, c := range []struct {
		file, env, flag string
		value, origin   string
	}{
		{"", "", "", "4", "default"},
		{"retry: {attempts: 2}\n", "", "", "2", "file"},
		{"retry: {attempts: 2}\n", "3", "", "3", "environment"},
		{"retry: {attempts: 2}\n", "3", "5", "5", "flag"},
		{"", "", "5", "5", "flag"},
	} {
		src := config.Source{Data: []byte(plainYAML + c.file), Env: func(k string) (string, bool) { return c.env, k == "FAILBACK_RETRY_ATTEMPTS" && c.env != "" }}
		if c.flag != "" {
			src.Flags = map[string]string{"retry.attempts": c.flag}
		}
		cfg, err := config.Load(t.Context(), src)
		if err != nil {
			t.Fatal(err)
		}
		told := "nothing"
		for _, s := range cfg.Settings() {
			if s.Key == "retry.attempts" {
				told = s.Value + " from " + s.Origin
			}
		}
		if want := c.value + " from " + c.origin; told != want {
			t.Errorf("%+v: %s is told, not %s", c, told, want)
		}
	}
	for _, attempts := range []string{"1", "2", "3"} {
		t.Run("environment "+attempts, func(t *testing.T) {
			t.Setenv("FAILBACK_RETRY_ATTEMPTS", attempts)
			inScene(t, setting{more: "retry: {attempts: 9}\n"}, func(w *scene) {
				for _, a := range w.up {
					a.plays(failing)
				}
				w.chat()
				n := w.up["A"].asked() + w.up["B"].asked() + w.up["C"].asked()
				if fmt.Sprint(n) != attempts {
					w.Errorf("%d attempts", n)
				}
			})
		})
	}
}

// CFG-08: a credential whose file is swapped behind its path, as Kubernetes
// does, is used by attempts from the reload on; streams go on with the old one.
func TestCFG08(t *testing.T) {
	for _, way := range callings {
		if !way.stream {
			continue
		}
		for _, form := range []string{"api_key: file:%s/key", "api_keys: [file:%s/key]", "api_key: \"exec:cat %s/key\""} {
			t.Run(way.name+"/"+form, func(t *testing.T) {
				dir := t.TempDir()
				swap := func(version, key string) {
					t.Helper()
					if err := os.Mkdir(filepath.Join(dir, version), 0o700); err != nil {
						t.Fatal(err)
					}
					for _, err := range []error{
						os.WriteFile(filepath.Join(dir, version, "key"), []byte(key), 0o600),
						os.Symlink(version, filepath.Join(dir, "..new")),
						os.Rename(filepath.Join(dir, "..new"), filepath.Join(dir, "..data")),
					} {
						if err != nil {
							t.Fatal(err)
						}
					}
				}
				swap("..1", "first\n")
				if err := os.Symlink("..data/key", filepath.Join(dir, "key")); err != nil {
					t.Fatal(err)
				}
				if strings.Contains(form, "exec") {
					synctestless(t, dir, form, swap)
					return
				}
				inScene(t, setting{dialect: way.dialect, names: []string{"A"}}, func(w *scene) {
					w.reconfigure("api_key: key-of-A", fmt.Sprintf(form, dir))
					hold := make(chan struct{})
					w.up["A"].plays(func(e *exchange) {
						if e.n > 1 {
							ok(e)
							return
						}
						a := replyOf(strings.TrimPrefix(way.path, "/"), e.name, false)
						e.sse()
						e.piece(a.preamble + a.first)
						<-hold
						e.piece(a.rest)
						e.end()
					})
					stream := w.crowd(1, way.path, way.body, func(g *got) {
						if served(g) != "200 A completed" || len(g.errorFrames()) > 0 {
							w.Errorf("%s: %s", served(g), g.body)
						}
					})
					synctest.Wait()
					swap("..2", "second\n")
					w.call(way.path, way.body)
					report, err := w.gw.Reload(w.Context(), "test")
					if err != nil || len(report) != 1 || report[0].Result != "applied" || !strings.HasPrefix(report[0].Key, "upstreams.A.api_key") {
						w.Errorf("%v %v", report, err)
					}
					w.call(way.path, way.body)
					// One that cannot be used is refused, the one in force stays.
					swap("..3", "two words\n")
					if _, err := w.gw.Reload(w.Context(), "test"); err == nil || strings.Contains(err.Error(), "two words") {
						w.Errorf("%v", err)
					}
					w.call(way.path, way.body)
					close(hold)
					stream.Wait()
					var keys []string
					for _, r := range w.up["A"].heard() {
						keys = append(keys, keyIn(r.header))
					}
					if got := strings.Join(keys, " "); got != "first first second second" {
						w.Errorf("A saw %s", got)
					}
				})
			})
		}
	}
}

// keyIn is the credential in a request's header.
func keyIn(h http.Header) string {
	return strings.TrimPrefix(h.Get("Authorization"), "Bearer ") + h.Get("X-Api-Key") + h.Get("Api-Key")
}

// synctestless tests what runs a process, which stops a bubble's clock: what
// Load makes of it.
func synctestless(t *testing.T, dir, form string, swap func(version, key string)) {
	t.Helper()
	text := strings.Replace(plainYAML, "api_key: k", fmt.Sprintf(form, dir), 1)
	for i, key := range []string{"first", "second"} {
		if i > 0 {
			swap("..2", key+"\n")
		}
		cfg, err := config.Load(t.Context(), config.Source{Data: []byte(text)})
		if err != nil || cfg.Upstreams[0].Keys[0].Value() != key {
			t.Errorf("%s: %v", key, err)
		}
	}
}
