package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"failback/gateway/config"
	"failback/gateway/incident"
	"failback/gateway/telemetry"
)

// What a body says wrong is named in a line, whatever it holds, and nothing of a
// number or a key as long as the body comes back.
func TestReadOutcomes(t *testing.T) {
	long := strings.Repeat("9", 200<<10)
	good := `{"request_id":"r","layer":"task","good":true,"by":"x"}`
	for body, says := range map[string]string{
		good: "", "[" + good + "," + good + "]": "", " " + good + "\n": "",
		`{"request_id":"r","layer":"task","good":true,"by":"x","good":false}`:    "twice",
		`{"request_id":"r","layer":"task","good":true,"by":"x","Good":false}`:    "\"Good\" is not known",
		`{"Request_Id":"r","layer":"task","good":true,"by":"x"}`:                 "\"Request_Id\" is not known; known are request_id",
		`[` + good + `,{"request_id":"r","layer":"task","good":true,"BY":"x"}]`:  "\"BY\" is not known",
		`{"request_id":"r","layer":"task","good":true,"by":"x\u001b[2J"}`:        "by has the control character U+001B",
		`{"request_id":"r\u0000","layer":"task","good":true,"by":"x"}`:           "request_id has the control character U+0000",
		`{"request_id":"r","layer":"task","good":true,"by":"x","note":"\u009b"}`: "note has the control character U+009B",
		`{"request_id":"r","layer":"task","good":true,"by":"x","note":"a\n\tb"}`: "",
		`[` + good + `,{"by":"a","by":"b"}]`:                                     "twice",
		`{"request_id":` + long + `}`:                                            "request_id: a number does not fit there",
		`{"good":"true"}`:                                                        "good: a string",
		`{"good":1e999}`:                                                         "good: a number",
		`{"good":[true]}`:                                                        "good: a array",
		`{"` + long + `":1}`:                                                     "is not known",
		long:                                                                     "the body: a number",
		`[[[[` + good + `]]]]`:                                                   "array",
		`[null]`:                                                                 "outcome 1: request_id is missing",
		`null`:                                                                   "request_id is missing",
		`{"request_id":"r","layer":"task","good":null,"by":"x"}`:                 "good is missing",
		`{"request_id":"` + strings.Repeat("r", 129) + `"}`:                      "over 128 bytes",
		strings.Repeat("[", 100<<10):                                             "not valid JSON",
		"{\"by\":\"\xff\"":                                                       "not valid JSON",
	} {
		l, err := readOutcomes([]byte(body))
		switch {
		case says == "" && (err != nil || len(l) == 0):
			t.Errorf("%.80s: %v", body, err)
		case says != "" && (err == nil || !strings.Contains(err.Error(), says) || len(err.Error()) > 300 || l != nil):
			t.Errorf("%.80s: %.400v", body, err)
		}
	}
}

// No body makes trouble, and of what is taken every field is within its bounds.
func FuzzReadOutcomes(f *testing.F) {
	f.Add([]byte(`[{"request_id":"r","layer":"task","good":true,"by":"x","note":"n"}]`))
	f.Add([]byte(`{"request_id":"r","by":"a","by":"b"}`))
	f.Add([]byte(`{"request_id":[{"a":{"b":1}},2],"layer":"task"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := readOutcomes(b)
		if err != nil {
			if len(err.Error()) > 400 {
				t.Errorf("%d bytes of error", len(err.Error()))
			}
			return
		}
		for _, o := range l {
			if o.Good == nil || o.RequestID == "" || len(o.RequestID) > maxRequestID || len(o.By) > maxReporter || len(o.Note) > maxOutcomeNote {
				t.Errorf("taken: %+v", o)
			}
		}
		if !json.Valid(b) {
			t.Error("taken, and no JSON")
		}
	})
}

// keyed is a gateway whose clients have the keys that are so named, and what posts an
// outcome with one.
func keyed(names ...string) (g *Gateway, post func(key, body string) *httptest.ResponseRecorder) {
	g = &Gateway{incidents: newIncidents("gw"), metrics: telemetry.NewMetrics(prometheus.NewRegistry(), func() telemetry.Gauges { return telemetry.Gauges{} })}
	var keys []config.ClientKey
	for _, name := range names {
		sum := sha256.Sum256([]byte(name))
		keys = append(keys, config.ClientKey{Name: name, Hash: "sha256:" + hex.EncodeToString(sum[:]), Models: []string{"other"}})
	}
	s := &setup{keys: newClientKeys(keys, false)}
	return g, func(key, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, outcomesPath, strings.NewReader(body))
		if key != "" {
			r.Header.Set("Authorization", "Bearer "+key)
		}
		rec := httptest.NewRecorder()
		g.serveOutcomes(s, rec, r, "id")
		return rec
	}
}

// However many names a key gives who judged, one request has one verdict of it a
// layer; and its workflow is its own key's to judge.
func TestOutcomesAreBoundToKeys(t *testing.T) {
	g, post := keyed("web", "judges", "other", "k4", "k5")
	now := time.Now()
	g.incidents.tallies.Follow(now, map[string]time.Time{"i": now}, func(id string) string { return id })
	epoch := g.incidents.tallies.Count(now.Add(time.Second), func(*incident.Counts) {})
	g.incidents.recent.Add("r", "other", false, true, epoch)
	answer := func(key, body string) (a outcomesAnswer) {
		t.Helper()
		rec := post(key, body)
		if err := json.Unmarshal(rec.Body.Bytes(), &a); rec.Code != http.StatusOK || err != nil {
			t.Fatalf("%d %s", rec.Code, rec.Body)
		}
		return a
	}
	for n := range 8 {
		var l []string
		for i := range maxOutcomes {
			l = append(l, fmt.Sprintf(`{"request_id":"r","layer":"semantic","good":false,"by":"judge %d %d"}`, n, i))
		}
		if a := answer("web", "["+strings.Join(l, ",")+"]"); a.Counted+a.Repeated != maxOutcomes || (a.Counted == 1) != (n == 0) {
			t.Errorf("%+v", a)
		}
	}
	for i, key := range []string{"judges", "other", "k4", "k5"} {
		if a := answer(key, `{"request_id":"r","layer":"semantic","good":false,"by":"x"}`); (a.Counted == 1) != (i < 3) || (a.Refused == 1) != (i == 3) {
			t.Errorf("%s: %+v", key, a)
		}
	}
	bad := `{"request_id":"r","layer":"workflow","good":false,"by":"x"}`
	if a := answer("web", bad); a.Counted != 0 || a.Refused != 1 || !slices.Equal(a.RefusedIDs, []string{"r"}) {
		t.Errorf("%+v", a)
	}
	if a := answer("other", bad); a.Counted != 1 {
		t.Errorf("its own: %+v", a)
	}
	c := g.incidents.tallies.Of("i")
	if c.Semantic.Primary.Bad != 4 || c.Workflow.Primary.Bad != 1 {
		t.Errorf("%+v", c)
	}
}

// Where clients have keys a report needs one, whichever models it is for; without,
// nothing is read or counted.
func TestOutcomesNeedAKey(t *testing.T) {
	_, post := keyed("known")
	body := `{"request_id":"r","layer":"task","good":true,"by":"x"}`
	for _, key := range []string{"", "unknown"} {
		if rec := post(key, body); rec.Code != http.StatusUnauthorized || strings.Contains(rec.Body.String(), "counted") {
			t.Errorf("key %q: %d %s", key, rec.Code, rec.Body)
		}
	}
	if rec := post("known", body); rec.Code != http.StatusOK || !strings.Contains(rec.Body.String(), `"unknown":1`) {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}
