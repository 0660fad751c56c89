package store

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// cluster is where a cluster is, and what of that must never be said.
type cluster struct {
	urls    string // as nats.Connect takes them
	hosts   string // for people
	secrets []string
}

// parseURL reads one or more URLs, with commas between them.
func parseURL(s string) (cluster, error) {
	c := cluster{urls: s}
	var hosts []string
	for part := range strings.SplitSeq(s, ",") {
		u, err := url.Parse(strings.TrimSpace(part))
		if err != nil { // its text holds the URL
			return cluster{}, errors.New("store: the URL of the NATS cluster cannot be read: it must look like nats://host:4222")
		}
		switch u.Scheme {
		case "nats", "tls", "ws", "wss":
		default:
			return cluster{}, fmt.Errorf("store: the URL of the NATS cluster must begin with nats:// or tls://, not with %q", u.Scheme)
		}
		if u.Hostname() == "" {
			return cluster{}, errors.New("store: the URL of the NATS cluster names no host: it must look like nats://host:4222")
		}
		hosts = append(hosts, u.Host)
		if u.User != nil {
			password, is := u.User.Password()
			if !is { // a token
				password = u.User.Username()
			}
			c.secrets = append(c.secrets, u.User.String(), password, url.QueryEscape(password), url.PathEscape(password))
		}
	}
	c.hosts = strings.Join(hosts, ", ")
	return c, nil
}

// redacted is an error without the secrets of a cluster's URL.
type redacted struct {
	text string
	err  error
}

func (e *redacted) Error() string { return e.text }

// Is keeps errors.Is working; there is no Unwrap, which would give the text away.
func (e *redacted) Is(target error) bool { return errors.Is(e.err, target) }

func (c cluster) redact(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	clean := text
	for _, s := range c.secrets {
		if s != "" {
			clean = strings.ReplaceAll(clean, s, "…")
		}
	}
	if clean == text {
		return err
	}
	return &redacted{text: clean, err: err}
}
