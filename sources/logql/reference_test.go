package logql

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/big"
	"math/rand/v2"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The reference is the slow and obvious way: every label of every line in a map,
// encoding/json, and for every step all lines from the beginning.

type refLine struct {
	ts     int64
	stream map[string]string
	labels map[string]string
	parsed map[string]bool // by the parser, and not touched since
	taken  map[string]bool // by a parser or label_format: no parser sets it again
	line   string
	err    string
}

type refStage struct {
	text string
	run  func(*refLine) bool
}

type refQuery struct {
	stages []refStage
	// Of a metric query.
	op      string // "" for a log query
	unwrap  string
	rng     time.Duration
	offset  time.Duration
	by      []string // nil: no grouping
	without bool
	outer   string // "" or a vector aggregation over it
	outerBy []string
}

func (q *refQuery) String() string {
	var b strings.Builder
	b.WriteString(`{app=~".+"}`)
	for _, s := range q.stages {
		b.WriteString(" " + s.text)
	}
	if q.op == "" {
		return b.String()
	}
	if q.unwrap != "" {
		b.WriteString(" | unwrap " + q.unwrap)
	}
	param, offset := "", ""
	if q.op == "quantile_over_time" {
		param = "0.3, "
	}
	if q.offset != 0 {
		offset = " offset " + q.offset.String()
	}
	inner := fmt.Sprintf("%s(%s%s [%s]%s)", q.op, param, b.String(), q.rng, offset)
	if q.by != nil {
		word := "by"
		if q.without {
			word = "without"
		}
		inner += fmt.Sprintf(" %s (%s)", word, strings.Join(q.by, ", "))
	}
	if q.outer == "" {
		return inner
	}
	return fmt.Sprintf("%s by (%s) (%s)", q.outer, strings.Join(q.outerBy, ", "), inner)
}

var errRefBroken = errors.New("broken")

// refJSON lists the fields of a line in order, until it breaks.
func refJSON(line string, emit func(name, value string)) error {
	dec := json.NewDecoder(strings.NewReader(line))
	dec.UseNumber()
	tok, err := dec.Token()
	if d, ok := tok.(json.Delim); err != nil || !ok || d != '{' {
		return errRefBroken
	}
	bad := regexp.MustCompile(`[^a-zA-Z0-9_]`)
	var object func(prefix string) error
	object = func(prefix string) error {
		for {
			tok, err := dec.Token()
			if err != nil {
				return errRefBroken
			}
			if tok == json.Delim('}') {
				return nil
			}
			name := prefix + bad.ReplaceAllString(tok.(string), "_")
			tok, err = dec.Token()
			if err != nil {
				return errRefBroken
			}
			switch v := tok.(type) {
			case json.Delim:
				if v == '{' {
					if err := object(name + "_"); err != nil {
						return err
					}
					continue
				}
				for dec.More() {
					var skip json.RawMessage
					if err := dec.Decode(&skip); err != nil {
						return errRefBroken
					}
				}
				if _, err := dec.Token(); err != nil {
					return errRefBroken
				}
			case string:
				emit(name, v)
			case json.Number:
				emit(name, v.String())
			case bool:
				emit(name, strconv.FormatBool(v))
			}
		}
	}
	return object("")
}

func (l *refLine) parse(name, value string) {
	if _, ok := l.stream[name]; ok {
		name += "_extracted"
	}
	if !l.taken[name] {
		l.labels[name], l.parsed[name], l.taken[name] = value, true, true
	}
}

var (
	refNames  = []string{"a", "b", "n", "app", "o_p", "gone", "app_extracted"}
	refValues = []string{"x", "y", "", "true", "5", "10.5", "x y", "3"}
)

func pick[T any](r *rand.Rand, s []T) T { return s[r.IntN(len(s))] }

// randomPredicate makes a comparison; direct says that it follows the parser.
func randomPredicate(r *rand.Rand, direct bool) refStage {
	name := pick(r, refNames)
	if r.IntN(3) == 0 {
		op := pick(r, []string{">", ">=", "<", "<=", "==", "!="})
		num := pick(r, []float64{3, 5, 10.5})
		return refStage{fmt.Sprintf("%s %s %v", name, op, num), func(l *refLine) bool {
			v, ok := l.labels[name]
			if !ok {
				return false
			}
			early := direct && l.parsed[name] // judged as soon as the parser has it
			if l.err != "" && !early {
				return true
			}
			x, err := strconv.ParseFloat(v, 64)
			if err != nil {
				if l.err == "" {
					l.err = errFilter
				}
				return true
			}
			return map[string]bool{">": x > num, ">=": x >= num, "<": x < num, "<=": x <= num, "==": x == num, "!=": x != num}[op]
		}}
	}
	op := pick(r, []string{"=", "!=", "=~", "!~"})
	value := pick(r, refValues)
	if op == "=~" || op == "!~" {
		value = pick(r, []string{"x|y", "x.*", "[0-9.]+", ".*", "5|true"})
	}
	return refStage{fmt.Sprintf("%s%s%q", name, op, value), func(l *refLine) bool {
		v := l.labels[name]
		switch op {
		case "=":
			return v == value
		case "!=":
			return v != value
		}
		return regexp.MustCompile("^(?:"+value+")$").MatchString(v) == (op == "=~")
	}}
}

// randomFilter makes a label filter stage.
func randomFilter(r *rand.Rand, direct bool) refStage {
	if r.IntN(3) > 0 {
		f := randomPredicate(r, direct)
		return refStage{"| " + f.text, f.run}
	}
	a, b, c := randomPredicate(r, false), randomPredicate(r, false), randomPredicate(r, false)
	if r.IntN(2) == 0 {
		return refStage{"| " + a.text + " or " + b.text + " and " + c.text, func(l *refLine) bool {
			return a.run(l) || b.run(l) && c.run(l)
		}}
	}
	return refStage{"| " + a.text + ", (" + b.text + " or " + c.text + ")", func(l *refLine) bool {
		return a.run(l) && (b.run(l) || c.run(l))
	}}
}

func randomLineFilter(r *rand.Rand) refStage {
	text := pick(r, []string{"x", `"a"`, "5", "true", "nope", ""})
	other := pick(r, []string{"y", "zz"})
	switch r.IntN(4) {
	case 0:
		return refStage{fmt.Sprintf("|= %q", text), func(l *refLine) bool { return strings.Contains(l.line, text) }}
	case 1:
		return refStage{fmt.Sprintf("!= %q or %q", text, other), func(l *refLine) bool {
			return !strings.Contains(l.line, text) && !strings.Contains(l.line, other)
		}}
	case 2:
		return refStage{fmt.Sprintf("|~ %q", "(?i)X|"+regexp.QuoteMeta(other)), func(l *refLine) bool {
			return strings.ContainsAny(l.line, "xX") || strings.Contains(l.line, other)
		}}
	}
	return refStage{fmt.Sprintf("!~ %q", "x|"+other), func(l *refLine) bool {
		return !strings.Contains(l.line, "x") && !strings.Contains(l.line, other)
	}}
}

var refJSONStage = refStage{"| json", func(l *refLine) bool {
	if refJSON(l.line, l.parse) != nil {
		l.err = errJSON
	}
	return true
}}

var refLogfmtStage = refStage{"| logfmt", func(l *refLine) bool {
	for _, kv := range strings.Fields(l.line) {
		if k, v, ok := strings.Cut(kv, "="); ok && k != "" && v != "" && !strings.ContainsAny(kv, `"`) && !strings.Contains(v, "=") {
			l.parse(strings.ReplaceAll(k, "-", "_"), v)
		}
	}
	return true
}}

// randomStages makes a pipeline. clean puts a filter on errors after the parser.
func randomStages(r *rand.Rand, logfmt, clean bool) []refStage {
	var out []refStage
	for range r.IntN(2) {
		out = append(out, randomLineFilter(r))
	}
	if r.IntN(8) > 0 {
		if logfmt {
			out = append(out, refLogfmtStage)
		} else {
			out = append(out, refJSONStage)
		}
		if clean {
			out = append(out, refStage{`| __error__=""`, func(l *refLine) bool { return l.err == "" }})
		}
	}
	direct := true
	for range r.IntN(4) {
		switch r.IntN(9) {
		case 0:
			out = append(out, randomLineFilter(r))
		case 1:
			a, b := pick(r, refNames), pick(r, refNames)
			direct = false
			out = append(out, refStage{fmt.Sprintf(`| line_format "{{.%s}}-{{.%s}}"`, a, b), func(l *refLine) bool {
				l.line = l.labels[a] + "-" + l.labels[b]
				return true
			}})
		case 2:
			to, from := pick(r, refNames), pick(r, refNames)
			direct = false
			out = append(out, refStage{fmt.Sprintf(`| label_format %s=%s`, to, from), func(l *refLine) bool {
				if v, ok := l.labels[from]; ok {
					l.labels[to], l.taken[to] = v, true
					delete(l.labels, from)
				}
				l.parsed = map[string]bool{}
				return true
			}})
		case 3:
			to, from := pick(r, refNames), pick(r, refNames)
			direct = false
			out = append(out, refStage{fmt.Sprintf(`| label_format %s="<{{.%s | upper}}>"`, to, from), func(l *refLine) bool {
				l.labels[to], l.taken[to] = "<"+strings.ToUpper(l.labels[from])+">", true
				return true
			}})
		case 4:
			a, b := pick(r, refNames), pick(r, refNames)
			direct = false
			out = append(out, refStage{fmt.Sprintf(`| drop %s, %s="x"`, a, b), func(l *refLine) bool {
				delete(l.labels, a)
				if l.labels[b] == "x" {
					delete(l.labels, b)
				}
				return true
			}})
		case 5:
			a, b := pick(r, refNames), pick(r, refNames)
			direct = false
			out = append(out, refStage{fmt.Sprintf(`| keep %s, %s=~".*"`, a, b), func(l *refLine) bool {
				maps.DeleteFunc(l.labels, func(k, _ string) bool { return k != a && k != b })
				return true
			}})
		default:
			out = append(out, randomFilter(r, direct))
		}
	}
	return out
}

// randomLines makes lines; broken ones among them.
func randomLines(r *rand.Rand, logfmt bool) []Entry {
	streams := []Labels{{{"app", "x"}}, {{"app", "y"}, {"b", "5"}}, {{"app", "z"}, {"zone", "q"}}}
	var out []Entry
	ts := int64(0)
	for range 5 + r.IntN(40) {
		ts += int64(r.IntN(3)) * int64(time.Second)
		var parts []string
		for _, k := range []string{"a", "b", "n", "app", "k-y"} {
			if r.IntN(3) == 0 {
				continue
			}
			v := pick(r, refValues)
			if logfmt {
				parts = append(parts, k+"="+strings.ReplaceAll(v, " ", "_"))
				continue
			}
			text := strconv.Quote(v)
			if _, err := strconv.ParseFloat(v, 64); err == nil || v == "true" {
				text = v
			} else if v == "" && r.IntN(2) == 0 {
				text = "null"
			}
			parts = append(parts, fmt.Sprintf("%q:%s", k, text))
		}
		if !logfmt && r.IntN(3) == 0 {
			parts = append(parts, fmt.Sprintf(`"o":{"p":%d,"q":["a",{"a":1}]}`, r.IntN(9)), `"arr":[1,2]`)
		}
		line := strings.Join(parts, " ")
		if !logfmt {
			line = "{" + strings.Join(parts, ",") + "}"
			switch r.IntN(10) {
			case 0:
				line = "not json x=5"
			case 1:
				if len(parts) > 0 {
					line = "{" + strings.Join(parts, ",") + `,"cut":`
				}
			}
		}
		out = append(out, Entry{TS: ts, Labels: pick(r, streams), Line: []byte(line)})
	}
	return out
}

// process runs a line through a pipeline, nil when it is dropped.
func (q *refQuery) process(e Entry) *refLine {
	l := &refLine{ts: e.TS, stream: map[string]string{}, labels: map[string]string{}, parsed: map[string]bool{}, taken: map[string]bool{}, line: string(e.Line)}
	for _, lb := range e.Labels {
		l.stream[lb.Name], l.labels[lb.Name] = lb.Value, lb.Value
	}
	for _, s := range q.stages {
		if !s.run(l) {
			return nil
		}
	}
	return l
}

func refLabels(m map[string]string) string {
	var l Labels
	for k, v := range m {
		l = append(l, Label{k, v})
	}
	sortLabels(l)
	return l.String()
}

// logs is the reference's answer to a log query: per labels the lines.
func (q *refQuery) logs(entries []Entry, r Request) map[string][]string {
	sort.SliceStable(entries, func(i, j int) bool { return entries[i].TS < entries[j].TS })
	if !r.Forward {
		entries = slices.Clone(entries)
		slices.Reverse(entries)
	}
	out, n := map[string][]string{}, 0
	for _, e := range entries {
		if e.TS < r.Start || e.TS >= r.End || n == r.Limit {
			continue
		}
		if l := q.process(e); l != nil {
			if l.err != "" {
				l.labels[errorLabel] = l.err
			}
			k := refLabels(l.labels)
			out[k] = append(out[k], fmt.Sprint(l.ts, " ", l.line))
			n++
		}
	}
	return out
}

type refSample struct {
	labels map[string]string
	values []float64
}

// grouped keeps or drops labels.
func groupedLabels(m map[string]string, names []string, without bool) map[string]string {
	m = maps.Clone(m)
	maps.DeleteFunc(m, func(k, _ string) bool { return slices.Contains(names, k) == without })
	return m
}

// metric is the reference's answer to a metric query: per labels and step a
// number; or the kind of the error of the first bad line.
func (q *refQuery) metric(entries []Entry, st steps) (map[string]map[int]float64, string) {
	sort.SliceStable(entries, func(i, j int) bool { return entries[i].TS < entries[j].TS })
	out := map[string]map[int]float64{}
	failAt, failKind := int64(math.MaxInt64), ""
	for step := range st.n {
		to := st.at(step) - int64(q.offset)
		groups := map[string]*refSample{}
		for _, e := range entries {
			if e.TS <= to-int64(q.rng) || e.TS > to {
				continue
			}
			l := q.process(e)
			if l == nil {
				continue
			}
			v := 1.0
			switch {
			case q.unwrap != "":
				text := l.labels[q.unwrap]
				if text == "" {
					continue
				}
				var err error
				if v, err = strconv.ParseFloat(text, 64); err != nil {
					l.err = errSample
				}
			case strings.HasPrefix(q.op, "bytes"):
				v = float64(len(l.line))
			}
			if l.err != "" {
				if l.ts < failAt {
					failAt, failKind = l.ts, l.err
				}
				continue
			}
			m := l.labels
			if q.by != nil {
				m = groupedLabels(m, q.by, q.without)
			}
			// A sum is grouped before it is summed, and may group by the very label.
			if first := q.outer == "sum" && sums[q.op]; q.unwrap != "" && !first && (q.by == nil || q.without) {
				m = groupedLabels(m, []string{q.unwrap}, true)
			}
			k := refLabels(m)
			if groups[k] == nil {
				groups[k] = &refSample{labels: m}
			}
			groups[k].values = append(groups[k].values, v)
		}
		vec := map[string]*refSample{}
		for k, g := range groups {
			v := refRange(q.op, g.values, q.rng)
			if q.outer != "" {
				g.labels = groupedLabels(g.labels, q.outerBy, false)
				k = refLabels(g.labels)
			}
			if vec[k] == nil {
				vec[k] = &refSample{labels: g.labels}
			}
			vec[k].values = append(vec[k].values, v)
		}
		for k, g := range vec {
			v := g.values[0]
			switch q.outer {
			case "sum", "avg", "min", "max", "count", "stddev", "stdvar":
				v = refRange(q.outer+"_over_time", g.values, 0)
			}
			if out[k] == nil {
				out[k] = map[int]float64{}
			}
			out[k][step] = v
		}
	}
	return out, failKind
}

func refRange(op string, v []float64, rng time.Duration) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	sorted := slices.Sorted(slices.Values(v))
	n := float64(len(v))
	switch op {
	case "count_over_time":
		return n
	case "rate", "bytes_rate":
		return sum / rng.Seconds()
	case "bytes_over_time", "sum_over_time":
		return sum
	case "avg_over_time": // exactly, and rounded once
		total := new(big.Rat)
		for _, x := range v {
			total.Add(total, new(big.Rat).SetFloat64(x))
		}
		mean, _ := total.Quo(total, big.NewRat(int64(len(v)), 1)).Float64()
		return mean
	case "min_over_time":
		return sorted[0]
	case "max_over_time":
		return sorted[len(v)-1]
	case "first_over_time":
		return v[0]
	case "last_over_time":
		return v[len(v)-1]
	case "stddev_over_time", "stdvar_over_time":
		squares := 0.0
		for _, x := range v {
			squares += (x - sum/n) * (x - sum/n)
		}
		if op == "stdvar_over_time" {
			return squares / n
		}
		return math.Sqrt(squares / n)
	case "quantile_over_time":
		at := 0.3 * (n - 1)
		lo := int(at)
		if lo+1 >= len(sorted) {
			return sorted[lo]
		}
		return sorted[lo] + (at-float64(lo))*(sorted[lo+1]-sorted[lo])
	}
	panic(op)
}

// plain hides that a source can be cut.
type plain struct{ l *Lines }

func (p plain) Select(ctx context.Context, s Selection, yield func(Entry) bool) error {
	return p.l.Select(ctx, s, yield)
}

// chopped is a source cut anywhere.
type chopped struct {
	*Lines
	cuts []int
}

func (c chopped) Partitions(s Selection, _ int) []Source {
	entries := c.between(s.Start, s.End)
	var out []Source
	from := 0
	for _, cut := range append(slices.Sorted(slices.Values(c.cuts)), len(entries)) {
		cut = min(cut, len(entries))
		out = append(out, &Lines{entries[from:cut]})
		from = cut
	}
	if !s.Forward {
		slices.Reverse(out)
	}
	return out
}

// sources are the same lines in three ways.
func sources(r *rand.Rand, entries []Entry) map[string]Source {
	l := NewLines(slices.Clone(entries))
	return map[string]Source{
		"plain":   plain{l},
		"chopped": chopped{l, []int{r.IntN(40), r.IntN(40), r.IntN(40)}},
		"pruned":  pruned{l},
	}
}

// pruned leaves out every line that fails a hint.
type pruned struct{ l *Lines }

func (p pruned) Select(ctx context.Context, s Selection, yield func(Entry) bool) error {
	names := make([]string, len(s.Where))
	for i, c := range s.Where {
		names[i] = c.Name
	}
	fields := NewFieldReader(names)
	return p.l.Select(ctx, s, func(e Entry) bool {
		for _, c := range s.Contains {
			if !strings.Contains(string(e.Line), string(c)) {
				return true
			}
		}
		values := make([]string, len(names))
		if fields.Values(e.Line, values) {
			for i, c := range s.Where {
				if _, own := e.Labels.Lookup(c.Name); !own && !c.Matches(values[i]) {
					return true
				}
			}
		}
		return yield(e)
	})
}

func kindOf(err error) string {
	if err == nil {
		return ""
	}
	if m := regexp.MustCompile(`^pipeline error: '(\w+)'`).FindStringSubmatch(err.Error()); m != nil {
		return m[1]
	}
	return err.Error()
}

// TestPipelinesAgainstReference: random small queries over random lines.
func TestPipelinesAgainstReference(t *testing.T) {
	lines, matched := 0, 0
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 7))
		logfmt := r.IntN(4) == 0
		entries := randomLines(r, logfmt)
		q := &refQuery{stages: randomStages(r, logfmt, r.IntN(3) == 0)}
		req := Request{Start: int64(r.IntN(10)) * 1e9, End: int64(10+r.IntN(40)) * 1e9, Limit: 1 + r.IntN(30), Forward: r.IntN(2) == 0}
		want := q.logs(slices.Clone(entries), req)
		var err error
		if req.Query, err = Parse(q.String()); err != nil {
			t.Fatalf("seed %d: %s: %v", seed, q, err)
		}
		for name, src := range sources(r, entries) {
			res, err := Eval(t.Context(), src, req)
			if err != nil {
				t.Fatalf("seed %d, %s: %s: %v", seed, name, q, err)
			}
			got := map[string][]string{}
			for _, s := range res.Streams {
				labels := slices.DeleteFunc(slices.Clone(s.Labels), func(l Label) bool { return l.Name == detailsLabel })
				for _, l := range s.Lines {
					got[labels.String()] = append(got[labels.String()], fmt.Sprint(l.TS, " ", l.Text))
				}
			}
			for _, m := range []map[string][]string{got, want} {
				for k := range m {
					if strings.Contains(k, errorLabel) {
						sort.Strings(m[k]) // several streams, which differ in the details
					}
				}
			}
			if !maps.EqualFunc(got, want, slices.Equal) {
				t.Fatalf("seed %d, %s: %s\n got %q\nwant %q", seed, name, q, got, want)
			}
			matched += len(got)
		}
		lines += len(entries)
	}
	if matched < 10_000 {
		t.Errorf("only %d streams in the answers over %d lines: the test says little", matched, lines)
	}
}

// TestMetricsAgainstReference: the same for numbers.
func TestMetricsAgainstReference(t *testing.T) {
	counted, failed := 0, 0
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 8))
		logfmt := r.IntN(4) == 0
		entries := randomLines(r, logfmt)
		q := &refQuery{stages: randomStages(r, logfmt, true), rng: time.Duration(1+r.IntN(20)) * time.Second}
		names := func() []string {
			out := []string{pick(r, refNames)}
			if n := pick(r, refNames); n != out[0] && r.IntN(2) == 0 {
				out = append(out, n)
			}
			return out
		}
		if r.IntN(2) == 0 {
			q.op = pick(r, []string{"count_over_time", "rate", "bytes_over_time", "bytes_rate"})
		} else {
			q.unwrap = pick(r, []string{"n", "o_p", "a"})
			q.op = pick(r, []string{"sum_over_time", "rate", "avg_over_time", "min_over_time", "max_over_time",
				"first_over_time", "last_over_time", "quantile_over_time", "stddev_over_time", "stdvar_over_time"})
			if r.IntN(2) == 0 && grouped[q.op] {
				q.by, q.without = names(), r.IntN(2) == 0
			}
		}
		if r.IntN(2) == 0 {
			q.outer, q.outerBy = pick(r, []string{"sum", "avg", "min", "max", "count", "stddev", "stdvar"}), names()
		}
		if r.IntN(3) == 0 {
			q.offset = time.Duration(r.IntN(20)-8) * time.Second
		}
		req := Request{Start: int64(r.IntN(10)) * 1e9, End: int64(10+r.IntN(40)) * 1e9, Step: time.Duration(1+r.IntN(9)) * time.Second}
		st := alignedSteps(req.Start, req.End, int64(req.Step))
		if r.IntN(3) == 0 {
			req.Instant, st = true, steps{start: req.End, end: req.End, n: 1}
		}
		want, kind := q.metric(slices.Clone(entries), st)
		var err error
		if req.Query, err = Parse(q.String()); err != nil {
			t.Fatalf("seed %d: %s: %v", seed, q, err)
		}
		for name, src := range sources(r, entries) {
			res, err := Eval(t.Context(), src, req)
			if kindOf(err) != kind {
				t.Fatalf("seed %d, %s: %s: error %v, want %q", seed, name, q, err, kind)
			}
			if err != nil {
				failed++
				continue
			}
			n := 0
			for _, s := range res.Series {
				w := want[s.Labels.String()]
				for _, p := range s.Points {
					step := 0
					if st.step > 0 {
						step = int((p.TS - st.start) / st.step)
					}
					v, ok := w[step]
					if !ok || math.Abs(v-p.V) > 1e-9*math.Max(1, math.Abs(v)) {
						t.Fatalf("seed %d, %s: %s: %s at step %d is %v, want %v (%v)", seed, name, q, s.Labels, step, p.V, v, ok)
					}
					n++
				}
			}
			for _, w := range want {
				n -= len(w)
			}
			if n != 0 {
				t.Fatalf("seed %d, %s: %s: %d points too many: %v, want %v", seed, name, q, n, res.Series, want)
			}
			counted += len(res.Series)
		}
	}
	if counted < 10_000 || failed < 100 {
		t.Errorf("%d series and %d errors: the test says little", counted, failed)
	}
}

// tangled spoils some lines: fields that occur twice, or under another spelling
// of the same label.
func tangled(r *rand.Rand, entries []Entry) []Entry {
	for i, e := range entries {
		if r.IntN(3) == 0 {
			extra := pick(r, []string{`"a":"y",`, `"n":3,`, `"o_p":5,`, `"o-p":"x",`, `" b ":"x",`, `"a":"\u0078",`, `"app_extracted":"x",`})
			entries[i].Line = []byte(strings.Replace(string(e.Line), "{", "{"+extra, 1))
		}
	}
	return entries
}

// TestHintsChangeNothing: a source that leaves out what fails a hint gives the
// same answer as one that ignores hints, errors included.
func TestHintsChangeNothing(t *testing.T) {
	answers, failed, spared := 0, 0, int64(0)
	for seed := range uint64(6000) {
		r := rand.New(rand.NewPCG(seed, 9))
		l := NewLines(tangled(r, randomLines(r, false)))
		q := &refQuery{stages: randomStages(r, false, r.IntN(2) == 0)}
		req := Request{End: 100 * sec, Limit: 1 + r.IntN(30), Forward: r.IntN(2) == 0, Step: 3 * time.Second}
		if r.IntN(2) == 0 {
			q.rng, q.op = time.Minute, pick(r, []string{"count_over_time", "rate", "bytes_over_time"})
			if r.IntN(2) == 0 {
				q.op, q.unwrap = pick(r, []string{"sum_over_time", "max_over_time"}), pick(r, []string{"n", "o_p"})
			}
			if r.IntN(3) > 0 {
				q.outer, q.outerBy = pick(r, []string{"sum", "count"}), []string{pick(r, refNames)}
			}
			req.Instant = r.IntN(2) == 0
		}
		var err error
		if req.Query, err = Parse(q.String()); err != nil {
			t.Fatalf("seed %d: %s: %v", seed, q, err)
		}
		want, werr := Eval(t.Context(), plain{l}, req)
		got, gerr := Eval(t.Context(), pruned{l}, req)
		if fmt.Sprint(werr) != fmt.Sprint(gerr) {
			t.Fatalf("seed %d: %s: %v with hints, %v without", seed, q, gerr, werr)
		}
		if werr != nil {
			failed++
			continue
		}
		spared += want.Stats.Lines - got.Stats.Lines
		want.Stats, got.Stats = Stats{}, Stats{}
		a, errA := want.MarshalJSON()
		b, errB := got.MarshalJSON()
		if errA != nil || errB != nil || string(a) != string(b) {
			t.Fatalf("seed %d: %s\nwith hints    %s\nwithout hints %s", seed, q, b, a)
		}
		answers += len(want.Series) + len(want.Streams)
	}
	if answers < 10_000 || failed < 100 || spared < 1000 {
		t.Errorf("%d streams and series, %d errors, %d lines spared: the test says little", answers, failed, spared)
	}
}
