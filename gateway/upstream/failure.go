package upstream

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"

	"failback/gateway/decision"
)

// fault is what an error of the transport says. Its detail is in our own
// words: the errors' texts hold hosts and addresses.
type fault struct {
	class  decision.Class
	detail string
	// unsent says that the upstream certainly did not act on the request.
	unsent bool
	// shared says that the connection ended, and with it every request on it.
	shared bool
}

// faultOf classifies an error of the transport. connected says that the
// request had got a connection, secure that it is to be a TLS one.
func faultOf(err error, connected, secure bool) fault {
	if f, ok := pathFault(err); ok {
		f.unsent = true
		return f
	}
	text := err.Error()
	for _, ours := range [...]string{"net/http: invalid ", "unsupported protocol scheme", "http: no Host"} {
		if strings.HasPrefix(text, ours) {
			return fault{class: decision.Internal, detail: "the request could not be built", unsent: true}
		}
	}
	if !connected {
		if secure {
			detail := "handshake failed"
			if isTimeout(err) {
				detail = "handshake timed out"
			}
			return fault{class: decision.TLS, detail: detail, unsent: true}
		}
		return fault{class: decision.Connect, detail: brokenDetail(err, "no connection"), unsent: true}
	}
	if f, ok := http2Fault(err); ok {
		return f
	}
	switch {
	case isBroken(err):
		return fault{class: decision.Reset, detail: brokenDetail(err, "the connection was closed"), shared: true}
	case strings.Contains(text, "server response headers exceeded"):
		return fault{class: decision.BadResponse, detail: largeHeader}
	}
	return fault{class: decision.BadResponse, detail: notHTTP}
}

const (
	largeHeader = "the answer's header is too large"
	// notHTTP is what is said of whatever else net/http cannot read.
	notHTTP = "the answer is not well-formed HTTP"
)

// pathFault finds what failed before there was a connection.
func pathFault(err error) (fault, bool) {
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		detail := "the name could not be resolved"
		switch {
		case e.IsNotFound:
			detail = "no such host"
		case e.IsTimeout:
			detail = "name resolution timed out"
		}
		return fault{class: decision.DNS, detail: detail}, true
	}
	if detail := tlsDetail(err); detail != "" {
		return fault{class: decision.TLS, detail: detail}, true
	}
	if e, ok := errors.AsType[*net.OpError](err); ok && (e.Op == "dial" || e.Op == "proxyconnect" || strings.HasPrefix(e.Op, "socks")) {
		return fault{class: decision.Connect, detail: brokenDetail(err, "no connection")}, true
	}
	return fault{}, false
}

// tlsDetail says what is wrong with the TLS connection; empty if the error is
// of another kind.
func tlsDetail(err error) string {
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "the certificate is for another host name"
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "the certificate is signed by an unknown authority"
	}
	if e, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		if e.Reason == x509.Expired {
			return "the certificate has expired or is not valid yet"
		}
		return "the certificate is not valid"
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "the certificate is not valid"
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return "the server does not speak TLS"
	}
	if e, ok := errors.AsType[tls.AlertError](err); ok {
		return "TLS alert: " + strings.TrimPrefix(e.Error(), "tls: ")
	}
	// crypto/tls puts a peer's alert, and the alert it sends itself, into a
	// net.OpError of one of these operations.
	if e, ok := errors.AsType[*net.OpError](err); ok && (e.Op == "remote error" || e.Op == "local error") {
		return "TLS alert: " + strings.TrimPrefix(e.Err.Error(), "tls: ")
	}
	if err.Error() == "http: server gave HTTP response to HTTPS client" {
		return "the server does not speak TLS"
	}
	return ""
}

// streamError has the shape of net/http's own HTTP/2 stream error, whose As
// method fills any such struct.
type streamError struct {
	StreamID uint32
	Code     http2Code
	Cause    error
}

func (e streamError) Error() string { return "HTTP/2 stream error" }

type http2Code uint32

// Codes of RFC 9113, section 7.
const (
	protocolError http2Code = 1
	refusedStream http2Code = 7 // not processed at all
)

var http2Codes = [...]string{
	"no error", "protocol error", "internal error", "flow control error", "settings timeout", "stream closed",
	"frame size error", "refused stream", "cancel", "compression error", "connect error", "enhance your calm",
	"inadequate security", "HTTP/1.1 required",
}

func (c http2Code) String() string {
	if int(c) < len(http2Codes) {
		return http2Codes[c]
	}
	return "unknown code"
}

// http2Fault finds what HTTP/2 says of a request. Apart from stream errors
// net/http exports neither types nor values for it, so that the texts of
// net/http/h2_bundle.go are all there is to go by; the tests hold them fast.
func http2Fault(err error) (fault, bool) {
	if e, ok := errors.AsType[streamError](err); ok {
		if e.Code == refusedStream {
			return fault{class: decision.Refused, detail: "the server refused the stream", unsent: true}, true
		}
		cause := ""
		if e.Cause != nil {
			cause = e.Cause.Error()
		}
		if e.Code == protocolError && cause != "received from peer" {
			// Not the server ended the stream but net/http, over what it got.
			if strings.Contains(cause, "header list larger") {
				return fault{class: decision.BadResponse, detail: largeHeader}, true
			}
			return fault{class: decision.BadResponse, detail: notHTTP}, true
		}
		return fault{class: decision.Reset, detail: "the stream was reset: " + e.Code.String()}, true
	}
	text := err.Error()
	switch {
	case strings.HasPrefix(text, "http2: Transport: cannot retry err ["):
		// net/http says so of a stream that was refused, or is above the last
		// one of a GOAWAY, when it cannot send the body again itself.
		detail := "the server is going away"
		if strings.Contains(text, "REFUSED_STREAM") {
			detail = "the server refused the stream"
		}
		return fault{class: decision.Refused, detail: detail, unsent: true}, true
	case strings.HasPrefix(text, "http2: client conn not usable"), strings.HasPrefix(text, "http2: client conn is closed"):
		return fault{class: decision.Refused, detail: "the connection was going away", unsent: true}, true
	case strings.HasPrefix(text, "http2: client conn could not be established"):
		return fault{class: decision.Connect, detail: "the HTTP/2 connection could not be established", unsent: true}, true
	case strings.HasPrefix(text, "http2: Transport received GOAWAY"):
		// On a new connection, with an error: asking again would meet the same.
		return fault{class: decision.Reset, detail: "the server ended the connection with an error", unsent: true, shared: true}, true
	case strings.Contains(text, "http2: frame too large"):
		return fault{class: decision.BadResponse, detail: "the server does not speak HTTP/2", shared: true}, true
	case strings.HasPrefix(text, "http2: server sent GOAWAY"), strings.HasPrefix(text, "http2: client connection lost"),
		strings.HasPrefix(text, "http2: client connection force closed"), strings.HasPrefix(text, "connection error: "):
		return fault{class: decision.Reset, detail: "the HTTP/2 connection was lost", shared: true}, true
	}
	return fault{}, false
}

// isBroken reports whether err says that the connection ended.
func isBroken(err error) bool {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.ErrClosedPipe) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded) {
		return true
	}
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return true
	}
	if _, ok := errors.AsType[syscall.Errno](err); ok {
		return true
	}
	switch err.Error() {
	case "http: server closed idle connection", "http: persistConn.readLoop exiting":
		return true
	}
	return false
}

// brokenDetail says why a connection broke, or was not made, if err tells;
// otherwise it is what the caller says.
func brokenDetail(err error, otherwise string) string {
	if e, ok := errors.AsType[syscall.Errno](err); ok {
		return e.Error()
	}
	if isTimeout(err) {
		return "timed out"
	}
	return otherwise
}

func isTimeout(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout()
}
