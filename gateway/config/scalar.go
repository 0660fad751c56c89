package config

import (
	"fmt"
	"math"
	"net/url"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// complaint is why a value is refused, before it is known where it stands.
type complaint struct{ message, hint string }

func complain(hint, format string, args ...any) *complaint {
	return &complaint{fmt.Sprintf(format, args...), hint}
}

var (
	integer = regexp.MustCompile(`^[-+]?(0|[1-9][0-9]*)$`)
	decimal = regexp.MustCompile(`^[-+]?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)
	octal   = regexp.MustCompile(`^[-+]?0[0-9_]+$`)
	size    = regexp.MustCompile(`^([0-9]+) ?([A-Za-z]*)$`)
)

// fromNode reads a scalar key's value from the file.
func (f *field) fromNode(n *node) (reflect.Value, *complaint) {
	switch f.kind {
	case kindInt, kindFloat, kindBool:
		if n.quoted {
			return reflect.Value{}, complain("remove the quotes", "%s is text, %s is wanted", visible(n.text), f.wants())
		}
	case kindString, kindURL:
		if n.word != "" && f.typ != "address" && f.typ != "endpoint" {
			hint := "put it into quotes"
			if octal.MatchString(n.text) {
				hint = "a leading zero is octal to some readers; put it into quotes"
			}
			return reflect.Value{}, complain(hint, "%s is %s, text is wanted", n.text, n.word)
		}
	}
	return f.fromText(n.text)
}

// fromText reads a scalar key's value, which may come from the environment or
// a flag too.
func (f *field) fromText(text string) (reflect.Value, *complaint) {
	v := reflect.New(f.goType).Elem()
	switch f.kind {
	case kindString:
		if c := f.checkText(text); c != nil {
			return v, c
		}
		v.SetString(f.canonical(text))
	case kindBool:
		switch text {
		case "true", "True", "TRUE":
			v.SetBool(true)
		case "false", "False", "FALSE":
		case "yes", "Yes", "YES", "on", "On", "ON", "y", "Y":
			return v, complain("write true", "%s is not true or false", visible(text))
		case "no", "No", "NO", "off", "Off", "OFF", "n", "N":
			return v, complain("write false", "%s is not true or false", visible(text))
		default:
			return v, complain("", "%s is not true or false", visible(text))
		}
	case kindInt:
		parse := parseInt
		if f.typ == "bytes" {
			parse = parseBytes
		}
		i, c := parse(text)
		if c == nil {
			c = f.checkBounds(float64(i), text)
		}
		if c != nil {
			return v, c
		}
		v.SetInt(i)
	case kindFloat:
		x, c := parseFloat(text)
		if c == nil {
			c = f.checkBounds(x, text)
		}
		if c != nil {
			return v, c
		}
		v.SetFloat(x)
	case kindTime:
		d, c := parseDuration(text)
		if c == nil {
			c = f.checkBounds(float64(d), text)
		}
		if c != nil {
			return v, c
		}
		v.SetInt(int64(d))
	case kindDate:
		t, err := time.Parse(time.DateOnly, text)
		if err != nil {
			t, err = time.Parse(time.RFC3339, text)
		}
		if err != nil {
			return v, complain("write it as 2027-03-01", "%s is not a date", visible(text))
		}
		v.Set(reflect.ValueOf(t))
	case kindURL:
		u, c := f.parseURL(text)
		if c != nil {
			return v, c
		}
		v.Set(reflect.ValueOf(u))
	default:
		panic("config: not a scalar: " + f.key)
	}
	return v, nil
}

// wants says what the key takes, for an error.
func (f *field) wants() string {
	switch f.kind {
	case kindBool:
		return "true or false"
	case kindInt:
		if f.typ == "bytes" {
			return "a size"
		}
		return "a whole number"
	case kindFloat:
		return "a number"
	case kindTime:
		return "a duration"
	case kindDate:
		return "a date"
	case kindCaps, kindStrings, kindList:
		return "a list"
	case kindSecrets:
		return "a list of credentials"
	case kindWords, kindRatios, kindStruct, kindOption:
		return "a map"
	case kindNamed:
		return "a map of names"
	}
	return "text"
}

func parseInt(text string) (int64, *complaint) {
	if c := oddNumber(text); c != nil {
		return 0, c
	}
	if !integer.MatchString(text) {
		hint := ""
		if decimal.MatchString(text) {
			hint = "write it without a fraction or exponent"
		} else if s, ok := strings.CutSuffix(text, "%"); ok && integer.MatchString(s) {
			hint = "write " + s
		}
		return 0, complain(hint, "%s is not a whole number", visible(text))
	}
	i, err := strconv.ParseInt(text, 10, 64)
	if err != nil || i > math.MaxInt32 || i < math.MinInt32 {
		return 0, complain("", "%s is too large", visible(text))
	}
	return i, nil
}

func parseFloat(text string) (float64, *complaint) {
	if c := oddNumber(text); c != nil {
		return 0, c
	}
	if s, ok := strings.CutSuffix(text, "%"); ok {
		if x, err := strconv.ParseFloat(strings.TrimSpace(s), 64); err == nil {
			return 0, complain("write "+number(x/100), "%s is a percentage, a number is wanted", visible(text))
		}
	}
	if !decimal.MatchString(text) {
		return 0, complain("", "%s is not a number", visible(text))
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(x, 0) {
		return 0, complain("", "%s is too large", visible(text))
	}
	return x, nil
}

// oddNumber refuses numbers that YAML's readers do not agree on.
func oddNumber(text string) *complaint {
	bare := strings.TrimLeft(text, "+-")
	switch {
	case octal.MatchString(text):
		plain := strings.TrimLeft(strings.ReplaceAll(bare, "_", ""), "0")
		if plain == "" {
			plain = "0"
		}
		if v, err := strconv.ParseInt(plain, 8, 64); err == nil && plain != "0" {
			return complain(fmt.Sprintf("a leading zero is octal to some readers; write %s, or %d if octal is meant", plain, v), "%s is ambiguous", text)
		}
		return complain("write "+plain, "%s is ambiguous", text)
	case strings.HasPrefix(bare, "0x"), strings.HasPrefix(bare, "0o"), strings.HasPrefix(bare, "0b"), strings.HasPrefix(bare, "0X"):
		return complain("write it in decimal", "%s is not a decimal number", visible(text))
	case strings.Contains(bare, "_") && decimal.MatchString(strings.ReplaceAll(bare, "_", "")):
		return complain("write it without _", "%s is not a decimal number", visible(text))
	}
	return nil
}

var units = map[string]int64{
	"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
	"kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
}

// parseBytes reads a size: a whole number with B, KiB, MiB, GiB, TiB, or the
// decimal kB, MB, GB, TB; without a unit, bytes.
func parseBytes(text string) (int64, *complaint) {
	if c := oddNumber(text); c != nil {
		return 0, c
	}
	m := size.FindStringSubmatch(text)
	if m == nil {
		return 0, complain("write a whole number and a unit, as 32MiB", "%s is not a size", visible(text))
	}
	if c := oddNumber(m[1]); c != nil {
		return 0, c
	}
	unit, ok := units[m[2]]
	if !ok {
		hint := "units are B, KiB, MiB, GiB, TiB and the decimal kB, MB, GB, TB"
		for _, u := range []string{"KiB", "MiB", "GiB", "TiB"} {
			decimal := u[:1] + "B"
			switch {
			case strings.EqualFold(m[2], u), strings.EqualFold(m[2], u[:1]), strings.EqualFold(m[2], u[:2]):
				hint = "write " + m[1] + u
			case strings.EqualFold(m[2], decimal):
				hint = "write " + m[1] + u + ", or " + m[1] + decimal + " for the decimal unit"
			}
		}
		return 0, complain(hint, "%s has no unit of size", visible(text))
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil || n > math.MaxInt64/unit {
		return 0, complain("", "%s is too large", visible(text))
	}
	return n * unit, nil
}

// parseDuration reads a duration with units, as Go writes it.
func parseDuration(text string) (time.Duration, *complaint) {
	const example = "units are ms, s, m, h, as 1m30s"
	if c := oddNumber(text); c != nil {
		return 0, c
	}
	if decimal.MatchString(text) && strings.Trim(text, "+-0.") != "" {
		return 0, complain("write "+strings.TrimPrefix(text, "+")+"s for seconds; "+example, "%s has no unit of time", visible(text))
	}
	d, err := time.ParseDuration(text)
	if err == nil {
		return d, nil
	}
	if s, ok := strings.CutSuffix(text, "d"); ok {
		if days, err := strconv.ParseFloat(s, 64); err == nil {
			return 0, complain("write "+number(days*24)+"h; "+example, "%s is not a duration", visible(text))
		}
	}
	return 0, complain(example, "%s is not a duration", visible(text))
}

// checkBounds compares x with the bounds of the key.
func (f *field) checkBounds(x float64, text string) *complaint {
	below := f.min != nil && (x < f.min.value || f.min.exclusive && x == f.min.value)
	if !below && (f.max == nil || x <= f.max.value) {
		return nil
	}
	want := ""
	switch {
	case f.min != nil && f.max != nil && f.min.exclusive:
		want = fmt.Sprintf("more than %s and at most %s", f.min.text, f.max.text)
	case f.min != nil && f.max != nil:
		want = fmt.Sprintf("from %s to %s", f.min.text, f.max.text)
	case f.min != nil && f.min.exclusive:
		want = "more than " + f.min.text
	case f.min != nil:
		want = "at least " + f.min.text
	default:
		want = "at most " + f.max.text
	}
	hint := ""
	switch {
	case x == 0 && f.none != "":
		hint = "leave the key out for: " + f.none
	case f.kind == kindFloat && f.max != nil && f.max.value == 1 && x >= 2 && x <= 100:
		hint = fmt.Sprintf("%s percent is %s", number(x), number(x/100))
	}
	return complain(hint, "%s is out of range, %s is wanted", visible(text), want)
}

// number is x as a person writes it.
func number(x float64) string {
	if x == math.Trunc(x) && math.Abs(x) < 1e15 {
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}

// bytesText is a size as a person writes it.
func bytesText(n int64) string {
	for _, u := range []string{"TiB", "GiB", "MiB", "KiB"} {
		if n != 0 && n%units[u] == 0 {
			return strconv.FormatInt(n/units[u], 10) + u
		}
	}
	return strconv.FormatInt(n, 10)
}

// durationText is d without the zero parts that Go adds.
func durationText(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// parseURL reads a URL. Its errors never repeat it: it may hold a secret.
func (f *field) parseURL(text string) (*url.URL, *complaint) {
	u, err := url.Parse(strings.TrimSpace(text))
	if err != nil {
		return nil, complain("check host, port and escapes", "not a URL")
	}
	schemes, example := []string{"https", "http"}, "https://host"
	if f.typ == "NATS URL" {
		schemes, example = []string{"nats", "tls", "ws", "wss"}, "nats://host:4222"
	}
	if err := urlScheme(u, schemes, example); err != nil {
		return nil, err
	}
	if f.typ != "NATS URL" {
		if u.User != nil {
			return nil, complain("keep credentials out of URLs, they end up in logs", "the URL holds a user or password")
		}
		if u.Fragment != "" {
			return nil, complain("remove what follows #", "the URL has a fragment")
		}
	}
	if port := u.Port(); port != "" {
		if p, err := strconv.Atoi(port); err != nil || p < 1 || p > 65535 {
			return nil, complain("", "the URL's port is not a number from 1 to 65535")
		}
	}
	if f.typ == "base URL" && (u.RawQuery != "" || u.ForceQuery) {
		return nil, complain("keep credentials out of URLs, they end up in logs; api_key is the place", "the URL has a query")
	}
	return u, nil
}

func urlScheme(u *url.URL, schemes []string, example string) *complaint {
	for _, s := range schemes {
		if u.Scheme == s {
			if u.Hostname() == "" {
				return complain("write it as "+example, "the URL has no host")
			}
			return nil
		}
	}
	return complain("write it as "+example, "not a URL that begins with %s://", strings.Join(schemes, ":// or "))
}
