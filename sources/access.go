package sources

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Env looks up a variable of the environment, as os.LookupEnv does.
type Env func(name string) (value string, ok bool)

// access is what a server is shown and how it is reached, as logcli's
// variables say it. The zero value shows nothing.
type access struct {
	prefix             string // of the variables: LOKI or PROMETHEUS
	username, password string
	bearer, bearerFile string
	authHeader         string // empty: Authorization
	orgID, queryTags   string
	headers            http.Header // more, as PREFIX_HEADERS names them
	noCache            bool
	caFile             string
	certFile, keyFile  string
	serverName         string
	skipVerify         bool
	proxy              *url.URL
}

// readAccess reads the variables that begin with prefix and an underscore. user
// is the user info of the server's URL; it goes before theirs.
func readAccess(prefix string, env Env, user *url.Userinfo) (access, error) {
	a := access{prefix: prefix}
	get := func(name string) string {
		v, _ := env(prefix + "_" + name)
		return v
	}
	var errs []error
	flag := func(name string) bool {
		v := get(name)
		if v == "" {
			return false
		}
		on, err := strconv.ParseBool(v)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s_%s=%q: want true or false", prefix, name, v))
		}
		return on
	}
	a.orgID, a.queryTags, a.authHeader = get("ORG_ID"), get("QUERY_TAGS"), get("AUTH_HEADER")
	a.caFile, a.certFile, a.keyFile, a.serverName = get("CA_CERT_PATH"), get("CLIENT_CERT_PATH"), get("CLIENT_KEY_PATH"), get("TLS_SERVER_NAME")
	a.skipVerify, a.noCache = flag("TLS_SKIP_VERIFY"), flag("NO_CACHE")
	if user != nil {
		a.username = user.Username()
		a.password, _ = user.Password()
	} else {
		a.username, a.password = get("USERNAME"), get("PASSWORD")
		a.bearer, a.bearerFile = get("BEARER_TOKEN"), get("BEARER_TOKEN_FILE")
		ways := 0
		for _, set := range []bool{a.username != "" || a.password != "", a.bearer != "", a.bearerFile != ""} {
			if set {
				ways++
			}
		}
		if ways > 1 {
			errs = append(errs, fmt.Errorf("at most one of %[1]s_USERNAME with %[1]s_PASSWORD, %[1]s_BEARER_TOKEN and %[1]s_BEARER_TOKEN_FILE may be set", prefix))
		}
	}
	if (a.certFile == "") != (a.keyFile == "") {
		errs = append(errs, fmt.Errorf("%[1]s_CLIENT_CERT_PATH and %[1]s_CLIENT_KEY_PATH belong together", prefix))
	}
	if v := get("HTTP_PROXY_URL"); v != "" {
		u, err := url.Parse(v)
		if err != nil || u.Host == "" {
			errs = append(errs, fmt.Errorf("%s_HTTP_PROXY_URL: want http://HOST:PORT", prefix)) // its value may hold a password
		} else {
			a.proxy = u
		}
	}
	for _, v := range []struct{ name, value string }{{"ORG_ID", a.orgID}, {"QUERY_TAGS", a.queryTags}, {"AUTH_HEADER", a.authHeader}, {"BEARER_TOKEN", a.bearer}} {
		if !headerValue(v.value) {
			errs = append(errs, fmt.Errorf("%s_%s holds characters that no header may have", prefix, v.name))
		}
	}
	var err error
	if a.headers, err = readHeaders(get("HEADERS")); err != nil {
		errs = append(errs, fmt.Errorf("%s_HEADERS: %w", prefix, err))
	}
	auth := a.authorization()
	if len(a.headers.Values(auth)) > 0 && (a.username != "" || a.password != "" || a.bearer != "" || a.bearerFile != "") {
		errs = append(errs, fmt.Errorf("%s_HEADERS sets %s, and so do other credentials: set one of them", prefix, auth))
	}
	return a, errors.Join(errs...)
}

// notOurs are the headers that are the exchange's own.
var notOurs = map[string]bool{
	"Host": true, "Content-Length": true, "Content-Type": true, "Content-Encoding": true, "Accept-Encoding": true,
	"Transfer-Encoding": true, "Connection": true, "Upgrade": true, "Te": true, "Trailer": true, "Keep-Alive": true, "Expect": true,
}

// readHeaders reads headers as they are in HTTP itself, "Name: value", one a
// line: so a value may hold a comma, an equals sign or a colon. A name that
// comes twice is sent twice. No error repeats a value.
func readHeaders(text string) (http.Header, error) {
	h := http.Header{}
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		switch {
		case !ok || !headerName(name):
			return nil, fmt.Errorf("line %d: want NAME: VALUE, one header a line", i+1)
		case notOurs[http.CanonicalHeaderKey(name)]:
			return nil, fmt.Errorf("line %d: %s cannot be set", i+1, http.CanonicalHeaderKey(name))
		case !headerValue(value):
			return nil, fmt.Errorf("line %d: %s holds characters that no header may have", i+1, name)
		}
		h.Add(name, value)
	}
	return h, nil
}

// headerName reports whether s is a token of RFC 9110, section 5.6.2.
func headerName(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
		return !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

// headerValue reports whether s may be the value of a header.
func headerValue(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}

// authorization is the header that carries credentials.
func (a *access) authorization() string {
	if a.authHeader == "" {
		return "Authorization"
	}
	return a.authHeader
}

// apply sets what is shown, and returns the secrets in it for redact.
func (a *access) apply(h http.Header) (secrets []string, err error) {
	auth := a.authorization()
	bearer := a.bearer
	if a.bearerFile != "" {
		b, err := os.ReadFile(a.bearerFile) // each time: it is rotated
		if err != nil {
			return nil, fmt.Errorf("%s_BEARER_TOKEN_FILE: %w", a.prefix, err)
		}
		bearer = strings.TrimSpace(string(b))
		if bearer == "" || strings.ContainsFunc(bearer, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
			return nil, fmt.Errorf("%s_BEARER_TOKEN_FILE: %s holds no token", a.prefix, a.bearerFile)
		}
	}
	switch {
	case bearer != "":
		h.Set(auth, "Bearer "+bearer)
	case a.username != "" || a.password != "":
		basic := base64.StdEncoding.EncodeToString([]byte(a.username + ":" + a.password))
		h.Set(auth, "Basic "+basic)
	}
	if a.orgID != "" {
		h.Set("X-Scope-OrgID", a.orgID)
	}
	if a.queryTags != "" {
		h.Set("X-Query-Tags", a.queryTags)
	}
	if a.noCache {
		h.Set("Cache-Control", "no-cache")
	}
	shown := http.Header{auth: h.Values(auth)}
	for name, values := range a.headers {
		h[name], shown[name] = values, values
	}
	secrets = secretsIn(shown, auth)
	if a.proxy != nil {
		password, _ := a.proxy.User.Password()
		secrets = append(secrets, password)
	}
	return spelled(secrets), nil
}

// lazyTransport makes the way to a server when it is first needed, so that a
// file that is missing is the answer to a question and may come later.
func (a *access) lazyTransport() func() (http.RoundTripper, error) {
	var (
		mu   sync.Mutex
		made *http.Transport // guarded by mu
	)
	return func() (http.RoundTripper, error) {
		mu.Lock()
		defer mu.Unlock()
		if made != nil {
			return made, nil
		}
		conf := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: a.skipVerify, ServerName: a.serverName}
		if a.caFile != "" {
			pem, err := os.ReadFile(a.caFile)
			if err != nil {
				return nil, fmt.Errorf("%s_CA_CERT_PATH: %w", a.prefix, err)
			}
			conf.RootCAs = x509.NewCertPool()
			if !conf.RootCAs.AppendCertsFromPEM(pem) {
				return nil, fmt.Errorf("%s_CA_CERT_PATH: %s holds no certificate", a.prefix, a.caFile)
			}
		}
		if a.certFile != "" {
			pair, err := tls.LoadX509KeyPair(a.certFile, a.keyFile)
			if err != nil {
				return nil, fmt.Errorf("%s_CLIENT_CERT_PATH: %w", a.prefix, err)
			}
			conf.Certificates = []tls.Certificate{pair}
		}
		proxy := http.ProxyFromEnvironment
		if a.proxy != nil {
			proxy = http.ProxyURL(a.proxy)
		}
		made = &http.Transport{
			Proxy:               proxy,
			DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
			TLSHandshakeTimeout: 5 * time.Second,
			TLSClientConfig:     conf,
			ForceAttemptHTTP2:   true,
			MaxIdleConns:        4,
			MaxIdleConnsPerHost: 4,
			IdleConnTimeout:     time.Minute,
		}
		return made, nil
	}
}
