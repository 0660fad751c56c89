package e2e

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// receiver takes the messages of a webhook.
type receiver struct {
	url    string
	refuse atomic.Bool // answers 500

	mu       sync.Mutex // guards everything that follows
	messages []message
}

type message struct {
	ID, Kind, Text, Upstream, Environment, Required string
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &receiver{url: "http://" + l.Addr().String() + "/hook"}
	s := &http.Server{Handler: http.HandlerFunc(r.take)}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	return r
}

func (r *receiver) take(w http.ResponseWriter, req *http.Request) {
	b, _ := io.ReadAll(req.Body)
	if r.refuse.Load() {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	var m message
	if err := json.Unmarshal(b, &m); err != nil {
		m.Kind = "not JSON: " + string(b)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.ContainsFunc(r.messages, func(o message) bool { return o.ID == m.ID }) {
		r.messages = append(r.messages, m)
	}
}

func (r *receiver) kinds() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var l []string
	for _, m := range r.messages {
		l = append(l, m.Kind+" "+m.Upstream)
	}
	return l
}

func (r *receiver) has(kind string) bool {
	return slices.ContainsFunc(r.all(), func(m message) bool { return m.Kind == kind })
}

func (r *receiver) all() []message {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.messages)
}

// gets waits for a message of a kind, which must say what and who is needed.
func (r *receiver) gets(t *testing.T, kind string) {
	t.Helper()
	until(t, "a message of "+kind+" is delivered", func() bool { return r.has(kind) })
	for _, m := range r.all() {
		if m.Kind == kind && (m.Text == "" || m.Required == "" || m.Environment != "TEST") {
			t.Errorf("a message of %s: %+v", kind, m)
		}
	}
}
