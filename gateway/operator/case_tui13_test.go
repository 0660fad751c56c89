package operator

import (
	"net/http"
	"strings"
	"testing"

	"failback/gateway/operator/api"
)

// TUI-13: whatever a console that was started read-only can be made to send,
// the gateway refuses, and so it refuses a viewer's token. No command is
// forgotten: the table of routes is gone through.
func TestTUI13EveryCommandIsRefused(t *testing.T) {
	ts := start(t, nil)
	names := strings.NewReplacer("{upstream}", "a", "{name}", "a", "{id}", "20261130-034840", "{bucket}", "a:text")
	commands := 0
	for _, rt := range table() {
		if rt.method == http.MethodGet || !strings.HasPrefix(rt.path, apiPrefix) { // the others ask for numbers
			continue
		}
		if rt.method+" "+rt.path == "DELETE "+apiPrefix+"session" { // a console that ends, whoever's it is
			continue
		}
		commands++
		for who, header := range map[string][]string{
			"a viewer":  {"Authorization", "Bearer " + vicToken},
			"read-only": {"Authorization", "Bearer " + anaToken, api.ReadOnlyHeader, "true"},
			"an odd no": {"Authorization", "Bearer " + anaToken, api.ReadOnlyHeader, "false"},
		} {
			path := names.Replace(rt.path)
			if strings.ContainsAny(path, "{}") {
				t.Fatalf("what is %s called?", rt.path)
			}
			status, body := ts.raw(t, rt.method, path, `{"share":5,"revision":1,"reason":"x","action":"open"}`, header...)
			if status != http.StatusForbidden || !strings.Contains(body, "this needs the role operator") {
				t.Errorf("%s: %s %s: %d %s", who, rt.method, path, status, body)
			}
		}
	}
	if commands < 8 {
		t.Errorf("only %d commands were tried", commands)
	}
	if made := ts.control.made(); len(made) != 0 {
		t.Errorf("control was called: %v", made)
	}
	// It is told so before it tries, and may read.
	c, err := api.NewClient("unix:"+ts.dir+"/failback.sock", api.Options{Token: anaToken, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := c.State(t.Context())
	if err != nil || s.You.Role != api.RoleViewer || s.You.ReadOnlyWhy == "" {
		t.Errorf("%+v, %v", s, err)
	}
	before := len(ts.auditLines(t))
	if _, err := c.SetShare(t.Context(), "a", api.Command{}); err == nil || !strings.Contains(err.Error(), "nothing was sent") {
		t.Errorf("a command of it: %v", err)
	}
	if now := len(ts.auditLines(t)); now != before {
		t.Error("its client sent a command")
	}
}
