package sources

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// A server may repeat what it was shown: whole, or the part of it that it is
// about. Nothing of that is to be seen in what is told of an answer. What an
// answer holds, samples and lines, is as it came.

// secretsIn are the secrets in headers that are shown: their values, what is
// behind a scheme, of Basic the password, of cookies the values. auth is the
// header that carries credentials. A short value of another is none: it may be a
// tenant's number, and is in many a text by chance.
func secretsIn(h http.Header, auth string) []string {
	var all []string
	for name, values := range h {
		name = http.CanonicalHeaderKey(name)
		credentials := name == http.CanonicalHeaderKey(auth) || name == "Authorization" || name == "Proxy-Authorization" || name == "Cookie"
		add := func(s string) {
			if credentials || len(s) >= shortSecret {
				all = append(all, s)
			}
		}
		for _, v := range values {
			add(v)
			if scheme, rest, ok := strings.Cut(v, " "); ok && headerName(scheme) {
				rest = strings.TrimSpace(rest)
				add(rest)
				if strings.EqualFold(scheme, "Basic") {
					all = append(all, passwordIn(rest)...)
				}
			}
			if name == "Cookie" {
				for part := range strings.SplitSeq(v, ";") {
					_, value, _ := strings.Cut(part, "=")
					add(strings.Trim(strings.TrimSpace(value), `"`))
				}
			}
		}
	}
	return all
}

// passwordIn is what the credentials of basic authentication hold.
func passwordIn(basic string) []string {
	b, err := base64.StdEncoding.DecodeString(basic)
	if err != nil {
		return nil
	}
	_, password, _ := strings.Cut(string(b), ":")
	return []string{string(b), password}
}

// spelled are secrets in every way in which they may be written, the longest
// first, so that none leaves a part of another.
func spelled(secrets []string) []string {
	var all []string
	for _, s := range secrets {
		quoted, _ := json.Marshal(s) // a string always can be
		all = append(all, s, strings.Trim(string(quoted), `"`), url.QueryEscape(s), url.PathEscape(s))
	}
	all = slices.DeleteFunc(all, func(s string) bool { return s == "" })
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b)) })
	return slices.Compact(all)
}

// shortSecret is the length from which a secret is looked for within words.
const shortSecret = 4

// redact takes secrets out of what a server says. Short ones are looked for where
// they stand alone: as parts of words they are everywhere.
func redact(text string, secrets []string) string {
	const instead = "xxxxx"
	for _, s := range secrets {
		if len(s) >= shortSecret {
			text = strings.ReplaceAll(text, s, instead)
			continue
		}
		var b strings.Builder
		rest := text
		for at := 0; ; {
			i := strings.Index(rest[at:], s)
			if i < 0 {
				b.WriteString(rest)
				break
			}
			at += i
			if at > 0 && wordly(rest[at-1]) || at+len(s) < len(rest) && wordly(rest[at+len(s)]) {
				at += len(s)
				continue
			}
			b.WriteString(rest[:at])
			b.WriteString(instead)
			rest, at = rest[at+len(s):], 0
		}
		text = b.String()
	}
	return text
}

func wordly(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c >= 0x80
}

// redactAnswer takes secrets out of what a Prometheus or Loki says besides the
// data of an answer.
func redactAnswer(body []byte, secrets []string) []byte {
	if len(secrets) == 0 {
		return body
	}
	var parts map[string]json.RawMessage
	if json.Unmarshal(body, &parts) != nil {
		return body
	}
	changed := false
	for name, part := range parts {
		if strings.EqualFold(name, "data") {
			continue
		}
		var v any
		if json.Unmarshal(part, &v) != nil {
			continue
		}
		if v, hit := redactValue(v, secrets); hit {
			parts[name], _ = json.Marshal(v) // it was JSON
			changed = true
		}
	}
	if !changed {
		return body
	}
	body, _ = json.Marshal(parts)
	return body
}

// redactValue is redact of every text in v, and whether there was a secret.
func redactValue(v any, secrets []string) (_ any, hit bool) {
	switch v := v.(type) {
	case string:
		r := redact(v, secrets)
		return r, r != v
	case []any:
		for i := range v {
			var h bool
			v[i], h = redactValue(v[i], secrets)
			hit = hit || h
		}
		return v, hit
	case map[string]any:
		for k := range v {
			var h bool
			v[k], h = redactValue(v[k], secrets)
			hit = hit || h
		}
		return v, hit
	}
	return v, false
}
