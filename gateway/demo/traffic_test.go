package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"failback/gateway/decision"
)

// relay stands where the gateway would: it passes a request on to the fake of
// its dialect, with the upstream's model and key, and labels the answer.
type relay struct {
	mu sync.Mutex // guards everything that follows

	firsts  map[string]bool // first user messages
	agents  map[string]bool
	retries map[string]bool
	told    map[string]int // how the conversation was named
}

func startRelay(t *testing.T, fakes map[decision.Dialect]*Fake, models map[string]string) (*relay, string) {
	t.Helper()
	l := &relay{firsts: map[string]bool{}, agents: map[string]bool{}, retries: map[string]bool{}, told: map[string]int{}}
	proxy := func(f *Fake) http.Handler {
		u, err := url.Parse(strings.TrimSuffix(f.BaseURL(), "/v1"))
		if err != nil {
			t.Fatal(err)
		}
		return &httputil.ReverseProxy{
			Rewrite: func(r *httputil.ProxyRequest) {
				r.SetURL(u)
				if f.opts.Dialect == decision.OpenAI {
					r.Out.Header.Set("Authorization", "Bearer "+f.Key())
				} else {
					r.Out.Header.Set("X-Api-Key", f.Key())
				}
			},
			ModifyResponse: func(r *http.Response) error {
				r.Header.Set("Failback-Status", "completed")
				return nil
			},
			ErrorLog: discard,
		}
	}
	oa, an := proxy(fakes[decision.OpenAI]), proxy(fakes[decision.Anthropic])
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		l.note(r.Header, body)
		for from, to := range models {
			body = bytes.Replace(body, []byte(`"model":"`+from+`"`), []byte(`"model":"`+to+`"`), 1)
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		if strings.HasPrefix(r.URL.Path, "/v1/messages") {
			an.ServeHTTP(w, r)
		} else {
			oa.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return l, s.URL
}

func (l *relay) note(h http.Header, body []byte) {
	var q struct {
		Messages []struct{ Role, Content string }
		Metadata map[string]string
		User     string
		Key      string `json:"prompt_cache_key"`
	}
	_ = json.Unmarshal(body, &q)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range q.Messages {
		if m.Role == "user" {
			l.firsts[m.Content] = true
			break
		}
	}
	l.agents[h.Get("User-Agent")] = true
	l.retries[h.Get("X-Stainless-Retry-Count")] = true
	for name, said := range map[string]bool{"header": h.Get("Failback-Conversation") != "", "metadata": q.Metadata["user_id"] != "", "user": q.User != "", "cache key": q.Key != ""} {
		if said {
			l.told[name]++
		}
	}
}

func demoFakes(t *testing.T, l Latency) map[decision.Dialect]*Fake {
	return map[decision.Dialect]*Fake{
		decision.OpenAI:    startFake(t, FakeOptions{Dialect: decision.OpenAI, Key: keyOpenAI, Models: []string{upstreamGPT, upstreamEmbed}, Latency: l}),
		decision.Anthropic: startFake(t, FakeOptions{Dialect: decision.Anthropic, Key: keyEast, Models: []string{upstreamSonnet}, Latency: l}),
	}
}

var upstreamNames = map[string]string{modelSonnet: upstreamSonnet, modelGPT: upstreamGPT, modelEmbed: upstreamEmbed}

// until waits for a condition that other goroutines bring about.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
		<-time.After(time.Millisecond)
	}
}

func TestTrafficIsMixedAndUnderstood(t *testing.T) {
	fakes := demoFakes(t, noWait)
	l, addr := startRelay(t, fakes, upstreamNames)
	tr := &Traffic{URL: addr, Rate: 1000, Seed: 3}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan struct{})
	go func() { defer close(done); tr.Run(ctx) }()
	until(t, "800 requests end", func() bool { return tr.Stats().Ended >= 800 })
	cancel()
	<-done

	s := tr.Stats()
	if s.Sent != s.Ended {
		t.Errorf("Run returned with requests under way: %+v", s)
	}
	if n := s.ByStatus[Broken] + s.ByStatus[NoAnswer] + s.ByStatus["completed"]; n != s.Ended || s.ByStatus["completed"] < 800*9/10 {
		t.Errorf("statuses %v", s.ByStatus)
	}
	for _, task := range []string{"policy_question", "document_summary", "refund", "permission_change", ""} {
		if s.ByTask[task]["completed"] == 0 {
			t.Errorf("task %q never completed: %v", task, s.ByTask)
		}
	}

	var total Counts
	endpoints := map[string]Counts{}
	for _, f := range fakes {
		total = total.plus(settle(t, f))
		for p, c := range f.Counts() {
			endpoints[p] = c
		}
	}
	if total.Refused != 0 {
		t.Errorf("upstreams refused %d requests of the mix: %+v", total.Refused, endpoints)
	}
	if total.Requests > s.Sent {
		t.Errorf("%d requests sent, upstreams saw %d: something sends twice", s.Sent, total.Requests)
	}
	for _, p := range []string{pathMessages, pathCountTokens, pathChat, pathCompletions, pathResponses, pathEmbeddings} {
		if endpoints[p].Completed == 0 {
			t.Errorf("%s was never asked", p)
		}
	}
	for _, p := range []string{pathMessages, pathChat} {
		if c := endpoints[p]; c.Streams == 0 || c.Streams == c.Requests {
			t.Errorf("%s: %d streams of %d", p, c.Streams, c.Requests)
		}
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.firsts) < 500 {
		t.Errorf("%d distinct conversations", len(l.firsts))
	}
	if len(l.agents) != 1 || l.agents[""] {
		t.Errorf("user agents %v", l.agents)
	}
	if len(l.retries) != 1 || !l.retries["0"] {
		t.Errorf("retry counts %v", l.retries)
	}
	for _, name := range []string{"header", "metadata", "user", "cache key"} {
		if l.told[name] == 0 {
			t.Errorf("no request names its conversation by %s: %v", name, l.told)
		}
	}
}

func TestMixAsksForTheToolsItOffers(t *testing.T) {
	an := startFake(t, FakeOptions{Dialect: decision.Anthropic})
	oa := startFake(t, FakeOptions{Dialect: decision.OpenAI})
	for i, k := range kinds {
		if k.tool == nil {
			continue
		}
		f := oa
		if k.path == pathMessages {
			f = an
		}
		_, body := k.call(i, 2)
		_, got, err := post(t, f, k.path, string(body))
		if err != nil || !strings.Contains(got, `"name":"`+k.tool.name+`"`) {
			t.Errorf("%s of %s: no call of %s in %q (%v)", k.path, k.task, k.tool.name, got, err)
		}
	}
}

func TestConversationKeepsItsIdentity(t *testing.T) {
	type identity struct{ header, first string }
	identify := func(k kind, n, turn int) identity {
		h, body := k.call(n, turn)
		var q struct {
			System   string
			Messages []struct{ Role, Content string }
			User     string
			Key      string `json:"prompt_cache_key"`
			Metadata map[string]string
		}
		_ = json.Unmarshal(body, &q)
		id := identity{header: h.Get("Failback-Conversation") + q.User + q.Key + q.Metadata["user_id"], first: q.System}
		for _, m := range q.Messages {
			id.first += "|" + m.Content
			if m.Role == "user" {
				break
			}
		}
		return id
	}
	for _, k := range kinds {
		if k.path != pathMessages && k.path != pathChat {
			continue
		}
		seen := map[identity]bool{}
		for n := range 8 {
			id := identify(k, n, 0)
			if again := identify(k, n, 3); again != id {
				t.Errorf("%s: conversation %d is %+v at first and %+v later", k.path, n, id, again)
			}
			seen[id] = true
		}
		if len(seen) != 8 {
			t.Errorf("%s %q: 8 conversations look like %d", k.path, k.task, len(seen))
		}
	}
}

func TestTrafficIsBounded(t *testing.T) {
	var (
		mu        sync.Mutex
		now, most int
	)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		mu.Lock()
		now++
		most = max(most, now)
		mu.Unlock()
		<-r.Context().Done()
		mu.Lock()
		now--
		mu.Unlock()
	}))
	defer s.Close()
	tr := &Traffic{URL: s.URL, Rate: 1000, MaxInFlight: 3}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan struct{})
	go func() { defer close(done); tr.Run(ctx) }()
	until(t, "50 requests are skipped", func() bool { return tr.Stats().Skipped >= 50 })
	cancel()
	<-done
	until(t, "the server is idle", func() bool { mu.Lock(); defer mu.Unlock(); return now == 0 })
	if st := tr.Stats(); most > 3 || st.Sent != 3 || st.ByStatus[NoAnswer] != 3 {
		t.Errorf("at most %d in flight, stats %+v", most, st)
	}
}

func TestTrafficSeesWhatBroke(t *testing.T) {
	fakes := demoFakes(t, noWait)
	_, addr := startRelay(t, fakes, upstreamNames)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	one := func(k kind) string { return ask(t.Context(), client, addr, k, 1, 0) }
	stream, whole := kinds[0], kinds[1]

	if got := one(stream); got != "completed" {
		t.Errorf("healthy stream: %s", got)
	}
	fakes[decision.Anthropic].SetFault(Fault{Kind: Break})
	if got := one(stream); got != Broken {
		t.Errorf("broken stream: %s", got)
	}
	if got := one(whole); got != Broken {
		t.Errorf("broken answer: %s", got)
	}
	if got := ask(t.Context(), client, strings.TrimSuffix(fakes[decision.OpenAI].BaseURL(), "/v1"), whole, 1, 0); got != Unlabelled {
		t.Errorf("not the gateway: %s", got)
	}
	if got := ask(t.Context(), client, "http://127.0.0.1:1", whole, 1, 0); got != NoAnswer {
		t.Errorf("nobody there: %s", got)
	}

	// A clean end without the stream's own end is a broken stream too, and a
	// trailer knows better than the header.
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Failback-Status", "completed")
		w.Header().Set("Trailer", "Failback-Status")
		w.WriteHeader(http.StatusOK)
		_, _ = io.WriteString(w, "event: message_start\ndata: {}\n\n")
		_ = http.NewResponseController(w).Flush()
		if r.Header.Get("Failback-Task") == "document_summary" {
			w.Header().Set("Failback-Status", "human")
		}
	}))
	defer s.Close()
	if got := ask(t.Context(), client, s.URL, stream, 1, 0); got != Broken {
		t.Errorf("silently cut stream: %s", got)
	}
	if got := ask(t.Context(), client, s.URL, kinds[2], 1, 0); got != "human" {
		t.Errorf("status in the trailer: %s", got)
	}
}
