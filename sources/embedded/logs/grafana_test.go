package logs

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// What Grafana's data source for Loki sends when it is saved and tested and when
// somebody explores, and what logcli sends, as it goes over the wire: each is
// answered, or refused as Loki refuses.
func TestGrafanaAsks(t *testing.T) {
	h := recorded(t).Handler()
	const from, to = "1795996499000000000", "1796003700000000000"
	const selector = "%7Bservice_name%3D%22failback%22%7D"
	const json, text = "application/json; charset=UTF-8", "text/plain; charset=utf-8"
	for _, tc := range []struct {
		name, path string
		code       int
		kind, body string // body is a regexp
	}{
		{"test", "query?query=vector%281%29%2Bvector%281%29&time=4000000000&direction=backward&limit=100", 200, json, `^{"status":"success","data":{"resultType":"vector","result":\[{"metric":{},"value":\[4000000000,"2"\]}\],"stats":{`},
		{"which Loki", "status/buildinfo", 200, json, `"version":".*"goVersion":"go|"goVersion":"go`},
		{"labels", "labels?start=" + from + "&end=" + to, 200, json, `^{"status":"success","data":\["instance","service_name"\]}`},
		{"labels of a selector", "labels?query=" + selector + "&start=" + from + "&end=" + to, 200, json, `"data":\["instance","service_name"\]`},
		{"values", "label/instance/values?start=" + from + "&end=" + to, 200, json, `"data":\["gw-1","gw-2"\]`},
		{"values of a selector", "label/instance/values?query=%7Binstance%3D~%22gw-2%22%7D&start=" + from + "&end=" + to, 200, json, `"data":\["gw-2"\]`},
		{"series", "series?match%5B%5D=" + selector + "&start=" + from + "&end=" + to, 200, json, `"data":\[{"instance":"gw-1","service_name":"failback"},{"instance":"gw-2","service_name":"failback"}\]`},
		{"how much", "index/stats?query=" + selector + "&start=" + from + "&end=" + to, 200, json, `^{"streams":2,"chunks":1,"entries":410,"bytes":[1-9]\d+}\n$`},
		{"how much of nothing", "index/stats?query=%7Bservice_name%3D%22none%22%7D&start=" + from + "&end=" + to, 200, json, `^{"streams":0,"chunks":0,"entries":0,"bytes":0}\n$`},
		{"volume", "index/volume?query=" + selector + "&start=" + from + "&end=" + to + "&limit=10", 200, json, `"resultType":"vector"},?.*|"result":\[{"metric":{"service_name":"failback"},"value":\[1796003700,"[1-9]\d+"\]}\]`},
		{"volume by label", "index/volume?query=" + selector + "&targetLabels=instance&start=" + from + "&end=" + to, 200, json, `"result":\[{"metric":{"instance":"gw-\d"},"value":\[1796003700,"[1-9]\d+"\]},{"metric":{"instance":"gw-\d"}`},
		{"lines", "query_range?direction=backward&start=" + from + "&end=" + to + "&limit=1000&query=" + selector + "+%7C%3D+%60%60", 200, json, `"resultType":"streams","result":\[{"stream":{"instance":"gw-1","service_name":"failback"},"values":\[\["1796002470000000000","`},
		{"histogram of lines", "query_range?start=" + from + "&end=" + to + "&step=600000ms&query=sum+by+%28level%2C+detected_level%29+%28count_over_time%28" + selector + "+%7C+json+%7C+drop+__error__%5B10m%5D%29%29", 200, json, `"resultType":"matrix","result":\[{"metric":{},"values":\[\[17959`},
		{"layout", "format_query?query=" + selector + "%7Cjson", 200, json, `^{"status":"success","data":"{service_name=\\"failback\\"} \| json"}`},
		{"legacy labels", "label?start=" + from + "&end=" + to, 200, json, `"instance"`},
		{"logcli's clock", "query_range?direction=BACKWARD&start=1795996499.5&end=1796003700&limit=1&query=" + selector, 200, json, `"resultType":"streams"`},
		{"volume over time", "index/volume_range?query=" + selector, 404, text, `404 page not found`},
		{"patterns", "patterns?query=" + selector, 404, text, `404 page not found`},
		{"fields", "detected_fields?query=" + selector, 404, text, `404 page not found`},
		{"labels of lines", "detected_labels", 404, text, `404 page not found`},
		{"limits", "drilldown-limits", 404, text, `404 page not found`},
		{"rules", "rules", 404, text, `404 page not found`},
		{"push", "push", 404, text, `404 page not found`},
		{"follow without a websocket", "tail?query=" + selector, 400, text, `.`},
	} {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader("GET /loki/api/v1/" + tc.path + " HTTP/1.1\r\nHost: x\r\nX-Loki-Response-Encoding-Flags: categorize-labels\r\nX-Query-Tags: Source=grafana\r\n\r\n")))
		if err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if body := w.Body.String(); w.Code != tc.code || w.Header().Get("Content-Type") != tc.kind || !regexp.MustCompile(tc.body).MatchString(body) {
			t.Errorf("%s: %d %s %.400s, want %d %s %s", tc.name, w.Code, w.Header().Get("Content-Type"), body, tc.code, tc.kind, tc.body)
		}
	}
	form := "match[]=%7Binstance%3D%22gw-2%22%7D&start=" + from + "&end=" + to
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader("POST /loki/api/v1/series HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: " + strconv.Itoa(len(form)) + "\r\n\r\n" + form)))
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if want := `{"status":"success","data":[{"instance":"gw-2","service_name":"failback"}]}`; w.Code != 200 || strings.TrimSpace(w.Body.String()) != want {
		t.Errorf("series by POST: %d %s", w.Code, w.Body)
	}
}
