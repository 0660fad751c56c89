package config

import (
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"failback/gateway/decision"
)

var (
	namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	wordPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}$`)
	hashPattern = regexp.MustCompile(`^sha256:[0-9A-Fa-f]{64}$`)
	hostPattern = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?\.?$`)
)

// checkText refuses text that the key cannot take.
func (f *field) checkText(text string) *complaint {
	if len(f.oneof) > 0 {
		return oneOf(text, f.oneof)
	}
	switch f.typ {
	case "address":
		return checkAddress(text)
	case "endpoint":
		return checkEndpoint(text)
	case "hash":
		if !hashPattern.MatchString(text) {
			return complain("failback token makes one", "not sha256: and 64 hexadecimal digits")
		}
	case "name":
		if !namePattern.MatchString(text) {
			return complain("letters, digits, dot, dash and underscore, at most 64", "%s is not a name", guarded(text))
		}
	case "upstream":
		if !namePattern.MatchString(text) {
			return complain("letters, digits, dot, dash and underscore, at most 64", "%s is not a name for an upstream", guarded(text))
		}
		if text == decision.NoProvider {
			return complain("choose another name", "%q is what metrics say where nobody answered", text)
		}
	case "model", "task":
		if !wordPattern.MatchString(text) {
			return complain("letters, digits and . _ : / @ + -, at most 128", "%s is not a name for a %s", guarded(text), f.typ)
		}
		if text == decision.TaskOther || f.typ == "task" && text == decision.TaskUnnamed {
			return complain("choose another name; default_task is for requests that name no task", "%q is what metrics say of names that are not configured", text)
		}
	case "domain":
		k, v, ok := strings.Cut(text, "/")
		if !ok || !namePattern.MatchString(k) || !namePattern.MatchString(v) {
			return complain("write it as dns/corp", "%s is not a fault domain", visible(text))
		}
	case "host":
		if !hostPattern.MatchString(text) || len(text) > 253 {
			return complain("write only the name, as api.example.com", "%s is not a host name", visible(text))
		}
	case "path", "log target":
		if strings.TrimSpace(text) == "" {
			return complain("", "an empty path")
		}
	}
	for _, r := range text {
		if unicode.IsControl(r) {
			return complain("", "the text has a control character")
		}
	}
	return nil
}

// canonical is text as it is kept.
func (f *field) canonical(text string) string {
	if f.typ == "hash" {
		return strings.ToLower(text)
	}
	return text
}

func oneOf(text string, words []string) *complaint {
	for _, w := range words {
		if text == w {
			return nil
		}
	}
	hint := ""
	if near, close := nearest(text, words); close {
		hint = "did you mean " + near + "?"
	}
	if len(words) == 1 {
		return complain(hint, "%s is refused, only %s is allowed", visible(text), words[0])
	}
	return complain(hint, "%s is not one of %s", visible(text), strings.Join(words, ", "))
}

func checkAddress(text string) *complaint {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		switch {
		case !strings.Contains(text, ":"):
			if _, err := strconv.Atoi(text); err == nil {
				return complain("write 127.0.0.1:"+text, "%s is a port without a host", visible(text))
			}
			return complain("write "+text+":8080", "%s has no port", visible(text))
		case strings.Contains(text, "://"):
			return complain("write host:port without a scheme", "%s is not an address", visible(text))
		case strings.Count(text, ":") > 1 && !strings.HasPrefix(text, "["):
			return complain(`write an IPv6 address in brackets, as "[::1]:8080"`, "%s is not an address", visible(text))
		}
		return complain("write it as 127.0.0.1:8080", "%s is not an address", visible(text))
	}
	if p, err := strconv.Atoi(port); err != nil || p < 0 || p > 65535 || !integer.MatchString(port) {
		return complain("", "the port of %s is not a number from 0 to 65535", visible(text))
	}
	if host == "" {
		return nil
	}
	if _, err := netip.ParseAddr(host); err != nil && !hostPattern.MatchString(host) {
		return complain("write it as 127.0.0.1:8080", "the host of %s is neither an IP address nor a name", visible(text))
	}
	return nil
}

// checkEndpoint refuses what cannot be connected to.
func checkEndpoint(text string) *complaint {
	if c := checkAddress(text); c != nil {
		return c
	}
	switch host, port, _ := net.SplitHostPort(text); {
	case host == "":
		return complain("write it as vault.example:8200", "%s has no host", visible(text))
	case strings.Trim(port, "0") == "":
		return complain("write it as vault.example:8200", "the port of %s cannot be connected to", visible(text))
	}
	return nil
}

// loopback reports whether only this machine reaches the address.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && loopbackHost(host)
}

func loopbackHost(host string) bool {
	if strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
