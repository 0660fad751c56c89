package logql

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"text/template"
	"time"
	"unicode"
)

// unsupportedFuncs are functions Loki's templates have and ours do not.
var unsupportedFuncs = map[string]bool{
	"now": true, "toDate": true, "toDateInZone": true, "unixToTime": true, "fromJson": true,
	"toUnixTime": true, "dateInZone": true,
}

// templateFuncs are the functions of line_format and label_format.
var templateFuncs = template.FuncMap{
	"ToLower": strings.ToLower, "lower": strings.ToLower,
	"ToUpper": strings.ToUpper, "upper": strings.ToUpper,
	"title": title,

	"Replace":    func(s, old, new string, n int) (string, error) { return replaced(s, old, new, n) },
	"replace":    func(old, new, s string) (string, error) { return replaced(s, old, new, -1) },
	"Trim":       trimmed(strings.Trim),
	"TrimLeft":   trimmed(strings.TrimLeft),
	"TrimRight":  trimmed(strings.TrimRight),
	"TrimPrefix": strings.TrimPrefix,
	"TrimSuffix": strings.TrimSuffix,
	"TrimSpace":  strings.TrimSpace,
	"trim":       strings.TrimSpace,
	"trimAll":    func(cut, s string) (string, error) { return trimmed(strings.Trim)(s, cut) },
	"trimPrefix": func(p, s string) string { return strings.TrimPrefix(s, p) },
	"trimSuffix": func(p, s string) string { return strings.TrimSuffix(s, p) },

	"contains":  func(sub, s string) bool { return strings.Contains(s, sub) },
	"hasPrefix": func(p, s string) bool { return strings.HasPrefix(s, p) },
	"hasSuffix": func(p, s string) bool { return strings.HasSuffix(s, p) },

	"trunc":      trunc,
	"substr":     substr,
	"repeat":     repeat,
	"indent":     indent,
	"nindent":    func(n int, s string) (string, error) { out, err := indent(n, s); return "\n" + out, err },
	"alignLeft":  alignLeft,
	"alignRight": alignRight,
	"default":    byDefault,

	"urlencode": func(s string) (string, error) { return within(url.QueryEscape(s)) },
	"urldecode": url.QueryUnescape,
	"b64enc":    func(s string) (string, error) { return within(base64.StdEncoding.EncodeToString([]byte(s))) },

	// What every template has, within bounds.
	"print":    func(v ...any) (string, error) { return printed(fmt.Sprint, v) },
	"println":  func(v ...any) (string, error) { return printed(fmt.Sprintln, v) },
	"printf":   printedBy,
	"html":     func(v ...any) (string, error) { return printed(template.HTMLEscaper, v) },
	"js":       func(v ...any) (string, error) { return printed(template.JSEscaper, v) },
	"urlquery": func(v ...any) (string, error) { return printed(template.URLQueryEscaper, v) },

	"b64dec": func(s string) string {
		b, err := base64.StdEncoding.DecodeString(s)
		if err != nil {
			return err.Error()
		}
		return string(b)
	},

	"add":     func(v ...any) int64 { return fold(v, 0, func(a, b int64) int64 { return a + b }) },
	"mul":     func(a any, v ...any) int64 { return fold(v, toInt(a), func(a, b int64) int64 { return a * b }) },
	"sub":     func(a, b any) int64 { return toInt(a) - toInt(b) },
	"div":     func(a, b any) (int64, error) { return divided(toInt(a), toInt(b), false) },
	"mod":     func(a, b any) (int64, error) { return divided(toInt(a), toInt(b), true) },
	"max":     func(a any, v ...any) int64 { return fold(v, toInt(a), func(a, b int64) int64 { return max(a, b) }) },
	"min":     func(a any, v ...any) int64 { return fold(v, toInt(a), func(a, b int64) int64 { return min(a, b) }) },
	"addf":    func(v ...any) float64 { return foldFloat(v, func(a, b float64) float64 { return a + b }) },
	"subf":    func(v ...any) float64 { return foldFloat(v, func(a, b float64) float64 { return a - b }) },
	"mulf":    func(v ...any) float64 { return foldFloat(v, func(a, b float64) float64 { return a * b }) },
	"divf":    func(v ...any) float64 { return foldFloat(v, func(a, b float64) float64 { return a / b }) },
	"maxf":    func(v ...any) float64 { return foldFloat(v, math.Max) },
	"minf":    func(v ...any) float64 { return foldFloat(v, math.Min) },
	"ceil":    func(a any) float64 { return math.Ceil(toFloat(a)) },
	"floor":   func(a any) float64 { return math.Floor(toFloat(a)) },
	"round":   round,
	"int":     func(a any) int { return int(toInt(a)) },
	"float64": toFloat,

	"bytes":            func(s string) (float64, error) { n, err := parseBytes(s); return float64(n), err },
	"duration":         seconds,
	"duration_seconds": seconds,

	"date":            func(layout string, t time.Time) string { return t.UTC().Format(layout) },
	"unixEpoch":       func(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) },
	"unixEpochMillis": func(t time.Time) string { return strconv.FormatInt(t.UnixMilli(), 10) },
	"unixEpochNanos":  func(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) },
}

func init() {
	for name := range unsupportedFuncs {
		templateFuncs[name] = func(...any) (string, error) { return "", errors.ErrUnsupported }
	}
}

// within is s if it is not too long.
func within(s string) (string, error) {
	if len(s) > maxTemplateOut {
		return "", errTooLong
	}
	return s, nil
}

// printed is what f makes of v, none of which is longer than a template may
// write.
func printed(f func(...any) string, v []any) (string, error) {
	size := 0
	for _, x := range v {
		if size += sizeOf(x); size > maxTemplateOut {
			return "", errTooLong
		}
	}
	return within(f(v...))
}

func sizeOf(v any) int {
	switch v := v.(type) {
	case string:
		return len(v)
	case map[string]string:
		n := 0
		for name, value := range v {
			n += len(name) + len(value)
		}
		return n
	}
	return 1
}

// printedBy is Sprintf within bounds. A width that stands in an argument is none
// that can be judged before.
func printedBy(format string, v ...any) (string, error) {
	longest := 0
	for _, x := range v {
		longest = max(longest, sizeOf(x))
	}
	size := len(format)
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			continue
		}
		width := 0
		for i++; i < len(format) && strings.IndexByte("+-# 0123456789.[]*", format[i]) >= 0; i++ {
			switch c := format[i]; {
			case c == '*':
				return "", errors.New("a width of * is not possible here")
			case isDigit(c):
				width = min(10*width+int(c-'0'), maxTemplateOut+1)
			default:
				size, width = size+width, 0
			}
		}
		if size += width + longest; size > 4*maxTemplateOut {
			return "", errTooLong
		}
	}
	return within(fmt.Sprintf(format, v...))
}

func seconds(s string) (float64, error) {
	d, err := time.ParseDuration(s)
	return d.Seconds(), err
}

// replaced is strings.Replace within bounds.
func replaced(s, old, new string, n int) (string, error) {
	if found := strings.Count(s, old); found > 0 && len(s)+found*len(new) > maxTemplateOut {
		return "", errTooLong
	}
	return strings.Replace(s, old, new, n), nil
}

// trimmed is f for sets of letters that are not too long: it looks through the
// set for each letter that it cuts.
func trimmed(f func(s, cut string) string) func(s, cut string) (string, error) {
	const most = 1 << 10
	return func(s, cut string) (string, error) {
		if len(cut) > most {
			return "", fmt.Errorf("more than %d bytes of letters to cut", most)
		}
		return f(s, cut), nil
	}
}

func title(s string) string {
	prev := ' '
	return strings.Map(func(r rune) rune {
		inWord := unicode.IsLetter(prev) || unicode.IsDigit(prev) || prev == '_'
		prev = r
		if inWord {
			return r
		}
		return unicode.ToTitle(r)
	}, s)
}

func trunc(n int, s string) string {
	switch {
	case n < 0 && len(s)+n > 0:
		return s[len(s)+n:]
	case n >= 0 && len(s) > n:
		return s[:n]
	}
	return s
}

func substr(start, end int, s string) string {
	switch {
	case start < 0:
		return s[:min(max(end, 0), len(s))]
	case end < 0 || end > len(s):
		return s[min(start, len(s)):]
	case start > end:
		return ""
	}
	return s[start:end]
}

func repeat(n int, s string) (string, error) {
	if n < 0 || len(s) > 0 && n > maxTemplateOut/len(s) {
		return "", errTooLong
	}
	return strings.Repeat(s, n), nil
}

func indent(n int, s string) (string, error) {
	if n < 0 || n > maxTemplateOut/(strings.Count(s, "\n")+1) {
		return "", errTooLong
	}
	pad := strings.Repeat(" ", n)
	return pad + strings.ReplaceAll(s, "\n", "\n"+pad), nil
}

func alignLeft(n int, s string) (string, error) {
	r := []rune(s)
	switch {
	case n < 0 || n == len(r):
		return s, nil
	case n < len(r):
		return string(r[:n]), nil
	case n > maxTemplateOut:
		return "", errTooLong
	}
	return s + strings.Repeat(" ", n-len(r)), nil
}

func alignRight(n int, s string) (string, error) {
	r := []rune(s)
	switch {
	case n < 0 || n == len(r):
		return s, nil
	case n < len(r):
		return string(r[len(r)-n:]), nil
	case n > maxTemplateOut:
		return "", errTooLong
	}
	return strings.Repeat(" ", n-len(r)) + s, nil
}

// byDefault is the value, or d when it is empty.
func byDefault(d any, given ...any) any {
	if len(given) == 0 || given[0] == nil || given[0] == "" || given[0] == 0 || given[0] == false ||
		given[0] == int64(0) || given[0] == float64(0) {
		return d
	}
	return given[0]
}

func toInt(v any) int64 {
	switch v := v.(type) {
	case int:
		return int64(v)
	case int64:
		return v
	case float64:
		return int64(v)
	case bool:
		if v {
			return 1
		}
	case string:
		if n, err := strconv.ParseInt(v, 10, 64); err == nil {
			return n
		}
	}
	return 0
}

func toFloat(v any) float64 {
	switch v := v.(type) {
	case float64:
		return v
	case string:
		f, err := strconv.ParseFloat(v, 64)
		if err != nil {
			return 0
		}
		return f
	}
	return float64(toInt(v))
}

func fold(v []any, start int64, f func(a, b int64) int64) int64 {
	for _, x := range v {
		start = f(start, toInt(x))
	}
	return start
}

func foldFloat(v []any, f func(a, b float64) float64) float64 {
	if len(v) == 0 {
		return 0
	}
	out := toFloat(v[0])
	for _, x := range v[1:] {
		out = f(out, toFloat(x))
	}
	return out
}

func divided(a, b int64, rest bool) (int64, error) {
	if b == 0 {
		return 0, fmt.Errorf("%d divided by zero", a)
	}
	if rest {
		return a % b, nil
	}
	return a / b, nil
}

// round rounds half up, or up from the part given.
func round(v any, places int, from ...float64) float64 {
	up := .5
	if len(from) > 0 {
		up = from[0]
	}
	pow := math.Pow(10, float64(places))
	digit := pow * toFloat(v)
	_, frac := math.Modf(digit)
	if frac >= up {
		return math.Ceil(digit) / pow
	}
	return math.Floor(digit) / pow
}
