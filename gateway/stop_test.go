package gateway

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"failback/gateway/config"
)

// A request that is cut off at the end of shutdown_grace is over, and in the
// decision log, when Stop returns; also one whose answer would be read to its
// end without its client.
func TestStopRecordsWhatItCutsOff(t *testing.T) {
	for _, gone := range []string{"cancel", "drain"} {
		t.Run(gone, func(t *testing.T) {
			asked := make(chan struct{}, 1)
			stub := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body) // only then does net/http notice who leaves
				asked <- struct{}{}
				<-r.Context().Done()
			}))
			defer stub.Close()
			yaml := fmt.Sprintf(`listen: 127.0.0.1:0
data_dir: %q
drain_delay: 0s
shutdown_grace: 10ms
on_client_gone: %s
upstreams: {a: {dialect: openai, base_url: "%s/v1", api_key: k}}
models: {m: {candidates: [{upstream: a, model: x}]}}
`, t.TempDir(), gone, stub.URL)
			var log bytes.Buffer
			g := New(Options{Stdout: &log, Load: func(ctx context.Context) (*config.Config, error) {
				return config.Load(ctx, config.Source{Data: []byte(yaml)})
			}})
			if err := g.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			over := make(chan struct{})
			go func() {
				defer close(over)
				resp, err := http.Post("http://"+g.ClientAddr()+"/v1/chat/completions", "application/json",
					strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`))
				if err == nil {
					_ = resp.Body.Close()
				}
			}()
			<-asked
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			if err := g.Stop(ctx); err == nil || !strings.Contains(err.Error(), "1 requests did not end") {
				t.Errorf("Stop says %v", err)
			}
			if n := g.inflight.Load(); n != 0 || !strings.Contains(log.String(), `"workflow_status":"cancelled"`) {
				t.Errorf("%d are in flight, the log says %s", n, log.String())
			}
			<-over
		})
	}
}
