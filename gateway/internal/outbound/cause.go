package outbound

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"
)

// Cause says for people why a call failed. It is put together from what is
// known of the error's kind; text that came with the error is not repeated.
func Cause(err error) string {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return certificateCause(e)
	}
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		switch {
		case e.IsNotFound:
			return "the name does not resolve"
		case e.IsTimeout:
			return "the name server does not answer in time"
		}
		return "the name server fails"
	}
	if errors.Is(err, context.Canceled) {
		return "broken off"
	}
	if e, ok := errors.AsType[net.Error](err); errors.Is(err, context.DeadlineExceeded) || ok && e.Timeout() {
		return "no answer in time"
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno.Error()
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok || errors.Is(err, http.ErrSchemeMismatch) {
		return "it does not speak TLS"
	}
	if _, ok := errors.AsType[tls.AlertError](err); ok {
		return "it refuses the TLS handshake"
	}
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "remote error" {
		return "it refuses the TLS handshake"
	}
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection ends without an answer"
	case errors.Is(err, fs.ErrNotExist):
		return "it is not there"
	case errors.Is(err, os.ErrClosed), errors.Is(err, net.ErrClosed):
		return "the connection is closed"
	}
	return "it does not answer as it should"
}

func certificateCause(e *tls.CertificateVerificationError) string {
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](e.Err); ok && invalid.Reason == x509.Expired && invalid.Cert != nil {
		if time.Now().Before(invalid.Cert.NotBefore) {
			return "its certificate is not valid before " + day(invalid.Cert.NotBefore)
		}
		return "its certificate expired on " + day(invalid.Cert.NotAfter)
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](e.Err); ok {
		return "its certificate is signed by an authority that is not trusted"
	}
	if _, ok := errors.AsType[x509.HostnameError](e.Err); ok {
		return "its certificate is for another name"
	}
	return "its certificate is not accepted"
}

func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }
