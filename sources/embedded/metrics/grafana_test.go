package metrics

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// What Grafana's data source for Prometheus sends when it is saved and tested
// and when somebody explores, and what promtool sends, as it goes over the wire:
// each is answered, or refused as Prometheus refuses.
func TestGrafanaAsks(t *testing.T) {
	s := filled(t, defaultLimits)
	now, before := unix(at), unix(at.Add(-time.Hour))
	form := func(path, body string) string {
		return "POST /prometheus/api/v1/" + path + " HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: " +
			strconv.Itoa(len(body)) + "\r\n\r\n" + body
	}
	plain := func(path string) string { return "GET /prometheus/api/v1/" + path + " HTTP/1.1\r\nHost: x\r\n\r\n" }
	for _, tc := range []struct {
		name, request string
		code          int
		body          string // regexp
	}{
		{"test by POST", form("query", "query=1%2B1&time=4"), 200, `^{"status":"success","data":{"resultType":"scalar","result":\[4,"2"\]}}$`},
		{"test by GET", plain("query?query=1%2B1&time=4.000"), 200, `"result":\[4,"2"\]`},
		{"which Prometheus", plain("status/buildinfo"), 200, `"version":"3\.`},
		{"rules of a kind", plain("rules?type=Alert&exclude_alerts=true&group_limit=5"), 200, `^{"status":"success","data":{"groups":\[\]}}$`},
		{"rules of the ruler", plain("rules"), 200, `^{"status":"success","data":{"groups":\[\]}}$`},
		{"rules of a kind", plain("rules?type=alert"), 200, `"groups":\[\]`},
		{"alerts", plain("alerts"), 200, `^{"status":"success","data":{"alerts":\[\]}}$`},
		{"metric names", plain("label/__name__/values?start=" + before + "&end=" + now + "&limit=40000"), 200, `"data":\[.*"requests_total"`},
		{"metric names that match", plain("label/__name__/values?match%5B%5D=%7B__name__%3D~%22.*requests.*%22%7D"), 200, `"data":\["requests_total"\]`},
		{"labels by POST", form("labels", "start="+before+"&end="+now+"&match%5B%5D=requests_total"), 200, `"data":\["__name__","instance","job","provider"\]`},
		{"labels by GET", plain("labels?start=" + before + "&end=" + now), 200, `"provider"`},
		{"values", plain("label/provider/values?match%5B%5D=%7B__name__%3D%22requests_total%22%7D"), 200, `"data":\["a"`},
		{"series", form("series", "match%5B%5D=requests_total&start="+before+"&end="+now), 200, `"__name__":"requests_total"`},
		{"metadata", plain("metadata?limit=40000"), 200, `"requests_total":\[{"type":"counter"`},
		{"metadata of one", plain("metadata?metric=requests_total"), 200, `^{"status":"success","data":{"requests_total":`},
		{"exemplars", form("query_exemplars", "query=requests_total&start="+before+"&end="+now), 200, `^{"status":"success","data":\[\]}$`},
		{"a range", form("query_range", "query=sum(rate(requests_total%5B1m0s%5D))&start="+before+"&end="+now+"&step=60"), 200, `"resultType":"matrix"`},
		{"a moment with statistics", form("query", "query=up&stats=all&time="+now), 200, `"stats":{`},
		{"layout", form("format_query", "query=sum(rate(requests_total%5B1m%5D))by(provider)"), 200, `"data":"sum by \(provider\) \(rate\(requests_total\[1m\]\)\)"`},
		{"not PromQL", form("query", "query=sum("), 400, `"errorType":"bad_data","error":"invalid parameter \\"query\\": 1:5: parse error`},
		{"its tree", plain("parse_query?query=up"), 404, `"status":"error","errorType":"not_found"`},
		{"targets", plain("targets?state=active"), 404, `"errorType":"not_found"`},
		{"flags", plain("status/flags"), 404, `"errorType":"not_found"`},
		{"cardinality", plain("status/tsdb"), 404, `"errorType":"not_found"`},
		{"remote read", form("read", ""), 404, `"errorType":"not_found"`},
		{"deletion", form("admin/tsdb/delete_series?match[]=up", ""), 404, `"errorType":"not_found"`},
	} {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(tc.request)))
		if err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		body, _ := io.ReadAll(w.Body)
		if w.Code != tc.code || w.Header().Get("Content-Type") != "application/json" || !regexp.MustCompile(tc.body).Match(body) {
			t.Errorf("%s: %d %s %.300s, want %d %s", tc.name, w.Code, w.Header().Get("Content-Type"), body, tc.code, tc.body)
		}
	}
}
