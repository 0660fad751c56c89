package api

import (
	"context"
	"crypto/x509"
	"time"
)

// Options of a Client. The zero value is a client without a token.
type Options struct {
	// Token is sent as a bearer token. Over plain HTTP only to loopback.
	Token string
	// Session is the random id of a console (NewSession); empty: the caller is
	// not listed among the sessions.
	Session string
	// CAs signs the gateway's certificate; nil: the system's.
	CAs *x509.CertPool
	// UserAgent names the program; empty: "failback".
	UserAgent string
}

// Filter selects decisions. Zero fields select everything.
type Filter struct {
	Limit     int // 0: the gateway's default
	Task      string
	Status    string // a workflow_status
	Provider  string // answered, was the primary, or was attempted
	RequestID string
	Since     time.Time // accepted at or after
}

// Client speaks to the operator API of one gateway. It is safe for concurrent
// use. Every method takes its time limit from its context. An answer that is
// not a success is an *Error; a gateway that does not answer is an
// *UnreachableError.
type Client struct{}

// NewClient returns a client for target: unix:PATH, http://HOST:PORT or
// https://HOST:PORT. It connects to nothing yet.
func NewClient(target string, o Options) (*Client, error) { return &Client{}, nil }

// NewSession returns a random session id.
func NewSession() string { return "" }

// Target is what NewClient was given, without credentials.
func (c *Client) Target() string { return "" }

// Close closes idle connections.
func (c *Client) Close() {}

// State asks for the live state.
func (c *Client) State(ctx context.Context) (*State, error) { return nil, nil }

// Decisions asks for the newest decisions that match f.
func (c *Client) Decisions(ctx context.Context, f Filter) (*Decisions, error) { return nil, nil }

// Events asks for the events after a sequence number; 0: all in the ring.
func (c *Client) Events(ctx context.Context, after uint64) (*Events, error) { return nil, nil }

// Stream calls fn with each event after a sequence number as it happens, until
// ctx ends, fn fails or the connection breaks; it never returns nil.
func (c *Client) Stream(ctx context.Context, after uint64, fn func(Message) error) error { return nil }

// StreamAll is Stream with decisions, of which some may be left out.
func (c *Client) StreamAll(ctx context.Context, after uint64, fn func(Message) error) error {
	return nil
}

// Audit asks for the newest limit entries of the audit file; 0: the gateway's
// default.
func (c *Client) Audit(ctx context.Context, limit int) (*AuditTrail, error) { return nil, nil }

// SetShare changes an upstream's share.
func (c *Client) SetShare(ctx context.Context, upstream string, cmd Command) (*Result, error) {
	return nil, nil
}

// SetBreaker forces a bucket open or closed, or gives it back to automatic.
func (c *Client) SetBreaker(ctx context.Context, bucket string, cmd Command) (*Result, error) {
	return nil, nil
}

// Passthrough switches the break glass on or off.
func (c *Client) Passthrough(ctx context.Context, cmd Command) (*Result, error) { return nil, nil }

// Reload makes the gateway read its configuration again. Only Reason of cmd
// applies.
func (c *Client) Reload(ctx context.Context, cmd Command) (*Result, error) { return nil, nil }

// Healthz asks whether the process answers at all.
func (c *Client) Healthz(ctx context.Context) error { return nil }
