package metrics

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// notebook keeps what a store logs.
type notebook struct {
	mu    sync.Mutex
	lines []string
}

func (n *notebook) log(line string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, line)
}

func (n *notebook) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Join(n.lines, "\n")
}

var ours = map[string]string{"job": "failback", "instance": "one"}

// opened returns a store in dir that ends with the test.
func opened(t testing.TB, dir string) (*Store, *notebook) {
	t.Helper()
	return openedWith(t, dir, defaultLimits)
}

func openedWith(t testing.TB, dir string, l limits) (*Store, *notebook) {
	t.Helper()
	n := &notebook{}
	s, err := open(Options{Dir: dir, Labels: ours, Log: n.log}, l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStore(t, s) })
	return s, n
}

func closeStore(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// families reads metrics in the text format.
func families(t testing.TB, text string) []*dto.MetricFamily {
	t.Helper()
	p := expfmt.NewTextParser(model.UTF8Validation)
	byName, err := p.TextToMetricFamilies(strings.NewReader(text + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	var mfs []*dto.MetricFamily
	for _, mf := range byName {
		mfs = append(mfs, mf)
	}
	return mfs
}

func appendAt(t testing.TB, s *Store, at time.Time, text string) {
	t.Helper()
	if err := s.Append(at, families(t, text)); err != nil {
		t.Fatal(err)
	}
}

// reply is an answer of the API.
type reply struct {
	code      int
	header    http.Header
	body      string
	Status    string
	ErrorType string
	Error     string
	Data      json.RawMessage
	Warnings  []string
	Infos     []string
}

func send(t testing.TB, s *Store, r *http.Request) reply {
	t.Helper()
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	a := reply{code: w.Code, header: w.Header(), body: w.Body.String()}
	if strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") {
		if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
			t.Fatalf("%s %s: %v in %s", r.Method, r.URL, err, a.body)
		}
	}
	return a
}

func get(t testing.TB, s *Store, path string, params ...string) reply {
	t.Helper()
	return send(t, s, httptest.NewRequest("GET", base+path+"?"+form(params...), nil))
}

func post(t testing.TB, s *Store, path string, params ...string) reply {
	t.Helper()
	r := httptest.NewRequest("POST", base+path, strings.NewReader(form(params...)))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return send(t, s, r)
}

func form(params ...string) string {
	v := url.Values{}
	for i := 0; i+1 < len(params); i += 2 {
		v.Add(params[i], params[i+1])
	}
	return v.Encode()
}

func unix(at time.Time) string {
	return strconv.FormatFloat(float64(at.UnixMilli())/1000, 'f', 3, 64)
}

// ask returns the value of an instant query that has at most one: "none" where
// there is no sample.
func ask(t testing.TB, s *Store, query string, at time.Time) string {
	t.Helper()
	a := get(t, s, "query", "query", query, "time", unix(at))
	if a.code != http.StatusOK {
		t.Fatalf("%s: %d %s", query, a.code, a.body)
	}
	var d struct {
		Result []struct{ Value [2]any }
	}
	if err := json.Unmarshal(a.Data, &d); err != nil {
		t.Fatal(err)
	}
	switch len(d.Result) {
	case 0:
		return "none"
	case 1:
		return d.Result[0].Value[1].(string)
	}
	t.Fatalf("%s: %d samples: %s", query, len(d.Result), a.body)
	return ""
}
