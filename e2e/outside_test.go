//go:build unix

package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/creack/pty"

	"failback/gateway/operator/api"
)

// Without a terminal the console says so at once, names the text command, and
// has started nothing.
func TestNoTerminal(t *testing.T) {
	for _, where := range []string{"standard input", "standard output", "TERM=dumb", "TERM="} {
		for _, command := range []string{"", "console", "demo"} {
			t.Run(strings.TrimSpace("failback "+command+" without "+where), func(t *testing.T) {
				dir := place(t)
				path := configure(t, dir, newStub(t), newStub(t), "")
				master, tty, err := pty.Open()
				if err != nil {
					t.Fatalf("there is no pty here: %v", err)
				}
				defer master.Close()
				defer tty.Close()
				args := []string{"--config", path}
				if command != "" {
					args = append([]string{command}, args...)
				}
				cmd := exec.Command(program, args...)
				var out, errs strings.Builder
				cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, &errs
				cmd.Env = append(os.Environ(), "TMPDIR="+dir, "TERM=xterm-256color")
				switch where {
				case "standard input":
					cmd.Stdin = nil
				case "standard output":
					cmd.Stdout = &out
				default:
					cmd.Env = append(cmd.Env, where)
				}
				began := time.Now()
				_ = cmd.Run()
				if d := time.Since(began); d > time.Second {
					t.Errorf("it took %s", d)
				}
				if cmd.ProcessState.ExitCode() != 2 || !strings.Contains(errs.String(), "failback status") || out.Len() > 0 {
					t.Errorf("exit %d: %s%s", cmd.ProcessState.ExitCode(), out.String(), errs.String())
				}
				if left, _ := os.ReadDir(dir); len(left) != 1 {
					t.Errorf("it left %v", left)
				}
			})
		}
	}
}

// The terminal goes away under the console, which has no shell beside it, as
// when a connection breaks; also where SIGHUP is ignored.
func TestTheGatewayOutlivesItsPty(t *testing.T) {
	t.Parallel()
	for name, argv := range map[string][]string{
		"hang-up":         {program},
		"ignored hang-up": {"sh", "-c", `trap "" HUP; exec "$@"`, "-", program},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSession(t)
			cmd := exec.Command(argv[0], append(argv[1:], "--config", s.path)...)
			cmd.Env = append(os.Environ(), "TERM=xterm-256color")
			// What it says on standard error finds no reader.
			reader, writer, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			reader.Close()
			defer writer.Close()
			cmd.Stderr = writer
			master, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: 80, Rows: 24})
			if err != nil {
				t.Fatalf("there is no pty here: %v", err)
			}
			defer master.Close()
			defer func() { _ = cmd.Process.Kill() }()
			s.found(t)
			var drawn strings.Builder
			for b := make([]byte, 4096); !strings.Contains(drawn.String(), "BREAKER"); {
				n, err := master.Read(b)
				drawn.Write(b[:n])
				if err != nil {
					t.Fatalf("%v after %q", err, drawn.String())
				}
			}
			s.more(t, 10)
			_ = master.Close()
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			select {
			case <-ended:
			case <-time.After(time.Minute):
				t.Error("the console runs on without a terminal")
			}
			s.more(t, 25)
		})
	}
}

// The gateway goes on when nobody reads its standard output and error any more.
func TestTheGatewayOutlivesItsPipes(t *testing.T) {
	t.Parallel()
	path := configure(t, place(t), newStub(t), newStub(t), "")
	edit(t, path, "decision_log: decisions.jsonl", "decision_log: stdout")
	var readers, writers [2]*os.File
	for i := range readers {
		var err error
		if readers[i], writers[i], err = os.Pipe(); err != nil {
			t.Fatal(err)
		}
		defer readers[i].Close()
		defer writers[i].Close()
	}
	g := startAs(t, path, func(cmd *exec.Cmd) { cmd.Stdout, cmd.Stderr = writers[0], writers[1] })
	p := newProber(t, g.url)
	p.more(t, 10)
	for i := range readers {
		_ = readers[i].Close()
		_ = writers[i].Close()
	}
	p.more(t, 25)
	g.hangup(t) // it says something of this
	p.more(t, 25)
	until(t, "the state says that the log cannot be written", func() bool {
		return g.state(t).Log.Error != ""
	})
}

// evil drives terminals, in all the ways that a byte can, and hides.
const evil = "evil\x1b]0;own\x07\x1b[38;5;201m\x1b[6n\x1bc\x1bP+q\x1b\\\u009b7m\r\n\u202elive\u2066\u200b"

var (
	strings7  = regexp.MustCompile(`\x1b[\]PX^_]`) // OSC, DCS, SOS, PM, APC
	sequences = []string{"\x1b[38;5;", "\x1b[6n", "\x1bc", "\a"}
)

// record keeps all bytes that go to the terminal from now on; harmless looks
// at them.
func (tm *terminal) record() string {
	tm.t.Helper()
	path := filepath.Join(tm.home, "raw")
	tm.run("pipe-pane", "-t", "s", "cat >"+path)
	return path
}

func harmless(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	around := func(i int) string { return fmt.Sprintf("%q", b[max(i-60, 0):min(i+60, len(b))]) }
	if len(b) < 1000 {
		t.Fatalf("only %d bytes were recorded", len(b))
	}
	if m := strings7.FindIndex(b); m != nil {
		t.Errorf("a control string: %s", around(m[0]))
	}
	for _, s := range sequences {
		if i := strings.Index(string(b), s); i >= 0 {
			t.Errorf("%q: %s", s, around(i))
		}
	}
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 && utf8.FullRune(b[i:]) || r >= 0x80 && !unicode.IsGraphic(r) {
			t.Errorf("%U: %s", r, around(i))
			return
		}
		i += n
	}
}

// look goes through the screens. seen is called on each; the last words of a
// decision are end.
func (tm *terminal) look(end string, seen func(screen string)) {
	tm.t.Helper()
	seen(tm.shows("USERS"))
	seen(tm.leads("Enter", " upstream   "))
	seen(tm.leads("e", "CHANGES AND TRIPS"))
	seen(tm.leads("Enter", " event    "))
	seen(tm.leads("d", "ROUTE DECISIONS"))
	tm.press("G")
	seen(tm.leads("Enter", " request    "))
	tm.press("G")
	seen(tm.shows(end)) // where all of it has room it is there before
	seen(tm.leads("!", "THE CONSOLE'S OWN LOG"))
	tm.leads("o", "USERS")
}

// What clients and upstreams say reaches the terminal as text.
func TestWordsFromOutside(t *testing.T) {
	t.Parallel()
	code, _ := json.Marshal(evil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	upstream := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Request-Id", "id-\u009b31m\u202eevil")
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = fmt.Fprintf(w, `{"error":{"message":%s,"type":%s,"code":%s}}`, code, code, code)
	})}
	go func() { _ = upstream.Serve(l) }()
	t.Cleanup(func() { _ = upstream.Close() })
	bad := &stub{url: "http://" + l.Addr().String() + "/v1"}
	path := configure(t, place(t), bad, newStub(t), "")
	g := start(t, path)
	meta, _ := json.Marshal(map[string]string{"failback-task": evil, "Failback-Task": evil, "Failback-Conversation": evil})
	for i := range 30 { // enough to open a breaker
		body := fmt.Sprintf(`{"model":"m","user":"u%d","metadata":%s,"messages":[{"role":"user","content":"hi"}]}`, i, meta)
		header := "Failback-Task: \u009b31mtask\u202e\r\nUser-Agent: \u202eagent\r\n"
		if i%2 == 0 {
			header = "Failback-Turn: \u2066turn\u009b2J\r\n" // the task is in the body
		}
		conn, err := net.Dial("tcp", strings.TrimPrefix(g.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n%s", header, len(body), body)
		answer, err := io.ReadAll(conn)
		_ = conn.Close()
		if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 ") || strings.HasPrefix(string(answer), "HTTP/1.1 400") {
			t.Fatalf("%v: %q", err, answer)
		}
	}
	tm := newTerminal(t)
	raw := tm.record()
	tm.console(program, "console", "--config", path)
	tm.shows("TEST", "OPEN", "q leave")
	all := ""
	tm.look("WHY", func(screen string) { all += screen })
	if !strings.Contains(all, "evil") || !strings.Contains(all, "OPEN") {
		t.Errorf("nothing of what was said is on the screens:\n%s", all)
	}
	tm.press("q")
	tm.restored(0)
	harmless(t, raw)
}

// A gateway that lies in every word it says harms no terminal either.
func TestHostileGateway(t *testing.T) {
	t.Parallel()
	began := time.Now()
	value := func(v float64) api.Number { return api.Number{State: api.StateValue, Value: v, At: time.Now()} }
	answer := func(path string) any {
		now := time.Now()
		e := api.Event{Seq: 1, Event: "traffic_step", Time: began, Provider: evil, Region: evil, Model: evil, From: "100", To: "75", Reason: evil, Detail: evil, By: evil, Why: evil, Action: evil, Result: evil, Revision: 2}
		switch {
		case strings.HasSuffix(path, "/state"):
			u := api.Upstream{
				Name: evil, Region: evil, Dialect: evil, Revision: 2, Share: 75, Live: value(0.5), Since: began, StateBy: evil, StateWhy: evil, PrimaryOf: []string{evil},
				RPS: value(1), OwnRPS: value(1), ErrorRatio: value(0), FirstOutputP95: value(1), NextStep: api.NextStep{Share: 100, BlockedBy: evil}, Credential: evil,
				Breakers: []api.Breaker{{Bucket: evil, Capability: evil, State: "open", Reason: evil, Detail: evil, Since: began, Forced: evil, ForcedBy: evil, Mode: evil}},
				Stranded: []api.TaskRate{{Task: evil, RPS: 1, Why: evil}}, Elsewhere: []string{evil},
				Health: api.Recovering, HealthSince: began, HealthBy: evil, HealthReason: evil,
				Signals: []api.Signal{{Group: evil, Name: evil, Colour: evil, Value: evil, At: now, Since: began, BlindSpot: evil}},
				Probes:  []api.Probe{{Model: evil, Capability: evil, Result: evil, Detail: evil, At: now, Held: evil}},
				Evidence: &api.Evidence{Verdict: evil, Share: 75, At: now, BaselineSource: evil,
					Rows: []api.EvidenceRow{{Name: evil, Verdict: evil, Text: evil}}},
				Plan: &api.Plan{By: evil, At: began},
			}
			return &api.State{
				APIVersion: api.Version, Version: evil, Environment: evil, Instance: evil, PID: 1, StartedAt: began, At: now, Revision: 2, Scope: evil, Demo: evil,
				Upstreams: []api.Upstream{u, u}, Sessions: []api.Session{{Name: evil, Instance: evil, LastSeen: now}}, LastWrite: &e,
				Config: api.Config{Path: evil, Hash: evil, LastError: evil, LastErrorAt: now, NeedsRestart: []string{evil}}, Log: api.Log{Target: evil, Error: evil},
				Passthrough: &api.Passthrough{Order: []string{evil}, Until: now.Add(time.Minute), By: evil, Why: evil},
				You:         api.You{Name: evil, Role: api.RoleOperator},
				Traffic:     api.Traffic{RPS: value(1), FailedRatio: value(0), FallbackRatio: value(0), FallbackRPS: value(0), FirstOutputP95: value(1)},
				Settings:    []api.Setting{{Key: evil, Value: evil, Origin: evil}},
				Failback: api.Failback{Advance: evil, Owner: evil,
					Steps: []api.FailbackStep{{Share: 5, ObserveSeconds: 600}, {Share: 25, ObserveSeconds: 900}, {Share: 75, ObserveSeconds: 900}, {Share: 100}}},
				SharedFault:  &api.SharedFault{Since: began, Reason: evil, Detail: evil, Upstreams: []string{evil}},
				Dependencies: []api.Dependency{{Name: evil, Domain: evil, Result: evil, Detail: evil, Upstreams: []string{evil}}},
				Jobs:         []api.Job{{Name: evil, EverySeconds: 1, Error: evil}},
				Notify:       api.Notify{Configured: true, LastError: evil},
				Store:        api.Store{Kind: evil, Error: evil},
			}
		case strings.HasSuffix(path, "/events"):
			return &api.Events{Events: []api.Event{e}, At: now}
		case strings.HasSuffix(path, "/decisions"):
			return &api.Decisions{Total: 1, PerMinute: 1, At: now, Decisions: []api.Decision{{
				Event: evil, Time: began, RequestID: evil, TraceID: evil, Conversation: evil, Turn: evil, TaskType: evil, Model: evil, Endpoint: evil,
				PrimaryProvider: evil, SelectedProvider: evil, SelectedModel: evil, ResponseModel: evil, Route: evil, WorkflowStatus: evil, Reason: evil,
				Candidates: []api.DecisionCandidate{{Provider: evil, Model: evil, Skipped: evil}},
				Attempts:   []api.DecisionAttempt{{Provider: evil, Region: evil, Capability: evil, Class: evil, UpstreamRequestID: evil, Code: evil, Detail: evil}},
			}}}
		}
		return nil
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		v := answer(r.URL.Path)
		if r.Method != http.MethodGet || v == nil {
			w.WriteHeader(http.StatusConflict)
			v = &api.Error{Code: api.CodeFailed, Message: evil, Hint: evil}
		}
		_ = json.NewEncoder(w).Encode(v)
	}))
	t.Cleanup(server.Close)
	tm := newTerminal(t)
	raw := tm.record()
	tm.console(program, "console", "--connect", server.URL)
	tm.shows("SHARED FAULT", "q leave", `evil\x1b]0;own`)
	tm.look("esc back", func(screen string) {
		if !strings.Contains(screen, `evil`) && !strings.Contains(screen, "CONSOLE") {
			t.Errorf("a screen without the gateway's words:\n%s", screen)
		}
	})
	tm.press("W")
	tm.shows("ARMED")
	tm.press("<")
	tm.shows("y  lower to 25%")
	tm.pressUntil("y", "lower to 25%", func() bool {
		return strings.Contains(tm.screen(), "refused") || strings.Contains(tm.screen(), "failed: ")
	})
	tm.press("Escape")
	tm.hides("Lower ")
	tm.press("q")
	tm.restored(0)
	harmless(t, raw)
}
