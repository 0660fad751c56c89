package operator

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"failback/gateway/decision"
	"failback/gateway/operator/api"
)

func TestTokens(t *testing.T) {
	token, hash := NewToken()
	other, _ := NewToken()
	if token == other || len(token) < 40 || strings.ContainsAny(token, " \t\n/+=") {
		t.Errorf("token %q", token)
	}
	if strings.Contains(hash, token) || HashToken(token) != hash {
		t.Errorf("hash %q", hash)
	}
	tokens := []Token{{Name: "bad", Hash: "sha256:zz"}, {Name: "empty"}, {Name: "x", Hash: HashToken(other)}, {Name: "ana", Hash: hash}}
	if got, ok := match(tokens, token); !ok || got.Name != "ana" {
		t.Errorf("match: %v %v", got, ok)
	}
	for _, wrong := range []string{"", token + "x", token[1:], hash, strings.ToUpper(token), strings.Repeat("a", 1<<20)} {
		if got, ok := match(append(tokens, Token{Name: "e", Hash: HashToken("")}), wrong); ok {
			t.Errorf("%.40q matches %v", wrong, got)
		}
	}
	// A malformed hash parses to zeros: it must not stand for whatever hashes to them.
	for _, h := range []string{"", "sha256:", "sha256:" + strings.Repeat("0", 63), "sha256:" + strings.Repeat("g", 64), "md5:" + strings.Repeat("0", 64)} {
		if _, ok := ParseHash(h); ok {
			t.Errorf("%q parses", h)
		}
	}
}

func TestRolesOverTCP(t *testing.T) {
	ts := start(t, nil)
	for _, tc := range []struct {
		method, path, token string
		want                int
	}{
		{"GET", "/healthz", "", 200},
		{"GET", "/metrics", "", 200},
		{"GET", "/operator/v1/state", "", 401},
		{"GET", "/operator/v1/state", vicToken, 200},
		{"GET", "/operator/v1/decisions", vicToken, 200},
		{"GET", "/operator/v1/events", vicToken, 200},
		{"GET", "/operator/v1/audit", vicToken, 200},
		{"GET", "/operator/v1/debug/pprof/", "", 401},
		{"GET", "/operator/v1/debug/pprof/", vicToken, 403},
		{"GET", "/operator/v1/debug/pprof/", anaToken, 200},
		{"GET", "/operator/v1/debug/pprof/heap", anaToken, 200},
		{"GET", "/operator/v1/debug/pprof/cmdline", anaToken, 404},
		{"GET", "/debug/pprof/", anaToken, 404},
		{"GET", "/nothing", "", 401}, // what exists is nobody's business
		{"GET", "/nothing", vicToken, 404},
		{"DELETE", "/operator/v1/state", vicToken, 405},
		{"POST", "/operator/v1/state", anaToken, 405},
		{"GET", "/operator/v1/reload", anaToken, 405},
		{"POST", "/operator/v1/reload", "", 401},
		{"POST", "/operator/v1/reload", vicToken, 403},
		{"POST", "/operator/v1/reload", anaToken, 200},
	} {
		var header []string
		if tc.token != "" {
			header = []string{"Authorization", "bearer " + tc.token}
		}
		if got, body := ts.raw(t, tc.method, tc.path, "", header...); got != tc.want {
			t.Errorf("%s %s with %.20q: %d %s, want %d", tc.method, tc.path, tc.token, got, body, tc.want)
		}
	}
}

// SEC-05: every wrong key gets the same bytes, and nothing of it is kept.
func TestWrongTokensGetOneAnswer(t *testing.T) {
	ts := start(t, nil)
	_, want := ts.raw(t, "GET", "/operator/v1/state", "")
	for _, header := range [][]string{
		{"Authorization", "Bearer sk-ant-api03-SECRET123"},
		{"Authorization", "Bearer "},
		{"Authorization", "Bearer"},
		{"Authorization", anaToken},
		{"Authorization", "Basic " + anaToken},
		{"Authorization", "Bearer " + anaToken + "SECRET123"},
		{"Authorization", "Bearer SECRET123 [2J\xff'\"<"},
		{"Authorization", "Bearer " + strings.Repeat("SECRET123", 800)},
		{"Authorization", "Bearer " + anaToken, "Authorization", "Bearer SECRET123"},
		{"X-Api-Key", anaToken},
	} {
		for _, method := range []string{"GET", "POST"} {
			status, body := ts.raw(t, method, "/operator/v1/upstreams/a/share", `{"share":0,"reason":"SECRET123"}`, header...)
			if status != 401 || body != want {
				t.Errorf("%.60q: %d %q", header, status, body)
			}
		}
	}
	audit, err := os.ReadFile(ts.o.AuditPath)
	if err != nil {
		t.Fatal(err)
	}
	if s := string(audit) + ts.log.text() + want; strings.Contains(s, "SECRET123") || strings.Contains(s, anaToken) {
		t.Errorf("a token is in %s", s)
	}
	if len(ts.control.made()) != 0 {
		t.Errorf("control was called: %v", ts.control.made())
	}
}

func TestTokensChangeAtOnce(t *testing.T) {
	var revoked atomic.Bool
	ts := start(t, func(s *Server) {
		s.o.Tokens = func() []Token {
			if revoked.Load() {
				return nil
			}
			return testTokens()
		}
	})
	c := ts.ana(t)
	if _, err := c.State(t.Context()); err != nil {
		t.Fatal(err)
	}
	revoked.Store(true)
	_, err := c.State(t.Context())
	apiError(t, err, 401, api.CodeUnauthorized)
}

// Off loopback and without TLS only what holds no secrets is served.
func TestPlainHTTPOffLoopback(t *testing.T) {
	var host string
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			host = n.IP.String()
		}
	}
	if host == "" {
		t.Skip("requires an address that is not loopback")
	}
	ts := start(t, func(s *Server) { s.o.Listen = host + ":0" })
	for path, want := range map[string]int{"/healthz": 200, "/metrics": 200, "/operator/v1/state": 403} {
		if got, body := ts.raw(t, "GET", path, "", "Authorization", "Bearer "+anaToken); got != want {
			t.Errorf("%s: %d %s", path, got, body)
		}
	}
	if status, _ := ts.raw(t, "POST", "/operator/v1/upstreams/a/share", `{"share":0}`, "Authorization", "Bearer "+anaToken); status != 403 {
		t.Errorf("command: %d", status)
	}
	if made := ts.control.made(); len(made) != 0 {
		t.Errorf("control was called: %v", made)
	}
	if l := ts.auditLines(t); len(l) != 1 || l[0].Phase != api.PhaseRefused || l[0].Status != 403 || l[0].By != "unknown" {
		t.Errorf("audit: %+v", l)
	}
	if _, err := api.NewClient("http://"+ts.Addr(), api.Options{Token: anaToken}); err == nil {
		t.Error("the client would send the token in clear")
	}
}

func TestPeerCredentials(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("requires Linux for peer credentials")
	}
	me, err := user.Current()
	if err != nil || me.Uid == "65534" {
		t.Skip("requires a user of one's own, not nobody")
	}
	ts := start(t, nil)
	c := ts.client(t, "unix", "", "")
	st, err := c.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if st.You != (api.You{Name: me.Username, Role: api.RoleOperator}) {
		t.Errorf("you: %+v", st.You)
	}
	if _, err := c.SetShare(t.Context(), "a", api.Command{Share: new(5)}); err != nil {
		t.Fatal(err)
	}
	if l := ts.auditLines(t); len(l) != 1 || l[0].By != me.Username || l[0].Via != viaSocket {
		t.Errorf("audit: %+v", l)
	}
	// A token says who its bearer is, also on the socket; a wrong one is refused
	// although the peer is known.
	st, err = ts.client(t, "unix", vicToken, "").State(t.Context())
	if err != nil || st.You.Name != "vic" || st.You.Role != api.RoleViewer {
		t.Errorf("with a token: %+v %v", st, err)
	}
	_, err = ts.client(t, "unix", "wrong", "").State(t.Context())
	apiError(t, err, 401, api.CodeUnauthorized)
}

// TestPeerChild is the client of TestPeersThatAreNoPersons, in a process of its own.
func TestPeerChild(t *testing.T) {
	path := os.Getenv("FAILBACK_TEST_PEER")
	if path == "" {
		t.Skip("requires its parent: a process of another user")
	}
	c, err := api.NewClient("unix:"+path, api.Options{})
	if err != nil {
		t.Fatal(err)
	}
	st, err := c.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("you %q %q %q", st.You.Name, st.You.Role, st.You.ReadOnlyWhy)
	_, err = c.SetShare(t.Context(), "a", api.Command{Share: new(0)})
	apiError(t, err, 403, api.CodeForbidden)
	c, err = api.NewClient("unix:"+path, api.Options{Token: anaToken})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = c.SetShare(t.Context(), "a", api.Command{Share: new(0)}); err != nil {
		t.Fatal(err)
	}
}

// A uid without an entry, and the one that stands for everybody from outside
// the user namespace, may read; writes need a token.
func TestPeersThatAreNoPersons(t *testing.T) {
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		t.Skip("requires root on Linux, to become other users")
	}
	ts := start(t, nil)
	// The child must reach its own program and the socket, which is the group's.
	if err := os.Chmod(ts.dir, 0o711); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(ts.dir, "test")
	self, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(program, self, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	for uid, want := range map[uint32]string{
		54321: `you "uid 54321" "viewer" "uid 54321 has no entry in the user database: writes need a token"`,
		65534: `you "unknown" "viewer" "the system does not say who you are: writes need a token"`,
	} {
		cmd := exec.Command(program, "-test.run=^TestPeerChild$", "-test.v")
		cmd.Dir = "/"
		cmd.Env = append(os.Environ(), "FAILBACK_TEST_PEER="+ts.socketPath(), "GORACE=", "HOME=/")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: 0}}
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("uid %d: %v\n%s", uid, err, out)
		}
	}
	l := ts.auditLines(t)
	if len(l) != 4 {
		t.Fatalf("audit: %+v", l)
	}
	for _, e := range l {
		if ok := e.By == "ana" && e.Via == viaSocketToken && e.Result == api.ResultOK; ok == (e.Phase == api.PhaseRefused) {
			t.Errorf("audit: %+v", e)
		}
	}
}

func TestHealthzAndMetricsNeedNoHost(t *testing.T) {
	ts := start(t, func(s *Server) { s.o.Metrics = nil })
	if status, _ := ts.raw(t, "GET", "/metrics", ""); status != http.StatusNotFound {
		t.Errorf("metrics: %d", status)
	}
	for _, over := range []string{"tcp", "unix"} {
		if err := ts.client(t, over, "", "").Healthz(t.Context()); err != nil {
			t.Errorf("%s: %v", over, err)
		}
	}
}

// Nobody whom the system names like the machine is taken for it.
func TestUserIsNotTheMachine(t *testing.T) {
	for name, want := range map[string]string{"ana": "ana", "auto": "user auto", "plan:ana": "user plan:ana", "autopilot": "autopilot", "Auto": "Auto", "plan": "plan"} {
		if got := userName(name); got != want || decision.ByMachine(got) {
			t.Errorf("%s: %q, not %q", name, got, want)
		}
	}
}
