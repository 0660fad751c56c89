package config

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Secret is where a credential comes from. Every way of printing it shows the
// source and never the value.
type Secret struct {
	source string // env, file, exec or literal
	ref    string // variable, path as written, command or the value itself
	path   string // of a file, resolved
	lookup func(string) (string, bool)
	value  string // as Load read it
}

// The sources of a Secret.
const (
	fromEnv     = "env"
	fromFile    = "file"
	fromExec    = "exec"
	fromLiteral = "literal"
)

// Bounds of what a file or command may give as a credential.
const (
	execTimeout    = 10 * time.Second
	maxSecretBytes = 64 << 10
)

// parseSecret reads how a credential is given. Its complaints never repeat it.
func parseSecret(text, dir string, lookup func(string) (string, bool)) (Secret, *complaint) {
	s := Secret{source: fromLiteral, ref: text, lookup: lookup}
	scheme, rest, ok := strings.Cut(text, ":")
	if ok {
		rest = strings.TrimSpace(rest)
		switch lower := strings.ToLower(strings.TrimSpace(scheme)); lower {
		case fromEnv, fromFile, fromExec:
			if scheme != lower {
				return s, complain("write "+lower+": in small letters, without spaces", "not a way to give a credential")
			}
			s.source, s.ref = lower, rest
		}
	}
	switch s.source {
	case fromEnv:
		if !envName(s.ref) {
			return s, complain("write env:NAME, as env:OPENAI_API_KEY", "what follows env: is not the name of an environment variable")
		}
	case fromFile:
		if s.ref == "" {
			return s, complain("write file:PATH", "nothing follows file:")
		}
		s.path = resolve(dir, s.ref)
	case fromExec:
		if s.ref == "" {
			return s, complain("write exec:COMMAND", "nothing follows exec:")
		}
	default:
		if text == "" {
			return s, complain("write env:NAME, file:PATH or exec:COMMAND", "the credential is empty")
		}
		if name, ok := shellVariable(text); ok {
			return s, complain("write env:"+name, "variables are not expanded here")
		}
		if c := checkKey(text); c != nil {
			return s, c
		}
	}
	return s, nil
}

func envName(s string) bool {
	for i, r := range s {
		if r != '_' && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return s != ""
}

// shellVariable reads $NAME and ${NAME}.
func shellVariable(s string) (string, bool) {
	name, ok := strings.CutPrefix(s, "$")
	if !ok {
		return "", false
	}
	if inner, ok := strings.CutPrefix(name, "{"); ok {
		name = strings.TrimSuffix(inner, "}")
	}
	return name, envName(name)
}

// Read returns the credential as it is now. A file is read and a command run
// again each time; spaces and line ends around the value are dropped. It fails
// if there is no value or it could not be a header's. Errors name the source
// and never the value.
func (s Secret) Read(ctx context.Context) (string, error) {
	value, c := s.read(ctx)
	if c != nil {
		if c.hint != "" {
			return "", fmt.Errorf("%s (%s)", c.message, c.hint)
		}
		return "", errors.New(c.message)
	}
	return value, nil
}

// Value returns the credential as Load found it.
func (s Secret) Value() string { return s.value }

func (s Secret) read(ctx context.Context) (string, *complaint) {
	value, what := s.ref, "the credential"
	switch s.source {
	case fromEnv:
		what = "environment variable " + s.name()
		lookup := s.lookup
		if lookup == nil {
			lookup = os.LookupEnv
		}
		v, ok := lookup(s.ref)
		if !ok {
			return "", complain("export it, or use file:PATH", "%s is not set", what)
		}
		value = v
	case fromFile:
		what = "file " + s.name()
		v, err := readSecretFile(s.path)
		if err != nil {
			return "", complain("", "%s cannot be read: %s", what, cause(err))
		}
		value = v
	case fromExec:
		what = "the output of " + s.name()
		v, err := run(ctx, s.ref)
		if err != nil {
			return "", complain("", "%s failed: %s", s.name(), err)
		}
		value = v
	}
	value = strings.TrimSpace(strings.TrimPrefix(value, "\ufeff"))
	if value == "" {
		return "", complain("", "%s is empty", what)
	}
	if c := checkKey(value); c != nil {
		return "", complain(c.hint, "%s: %s", what, c.message)
	}
	return value, nil
}

// checkKey refuses what cannot be a header's value.
func checkKey(value string) *complaint {
	for _, r := range value {
		switch {
		case r == '\n' || r == '\r':
			return complain("keep nothing but the key there", "the credential has more than one line")
		case r == ' ' || r == '\t':
			return complain("write only the key; use env:NAME, file:PATH or exec:COMMAND to fetch it", "the credential has a space")
		case r < ' ' || r > '~':
			return complain("", "the credential has a character that no header can carry")
		}
	}
	return nil
}

func readSecretFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // nothing was written
	b, err := io.ReadAll(io.LimitReader(f, maxSecretBytes+1))
	if err == nil && len(b) > maxSecretBytes {
		err = errors.New("larger than 64 KiB")
	}
	return string(b), err
}

// cause is what the system said, without the path it said it of.
func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// run returns what a shell command prints. What it writes to its standard
// error is dropped, since it may repeat a secret.
func run(ctx context.Context, command string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, execTimeout)
	defer cancel()
	shell, flag := "/bin/sh", "-c"
	if runtime.GOOS == "windows" {
		shell, flag = "cmd", "/C"
	}
	var out limited
	cmd := exec.CommandContext(ctx, shell, flag, command)
	cmd.Stdout = &out
	cmd.WaitDelay = time.Second
	endGroup(cmd)
	err := cmd.Run()
	switch {
	case ctx.Err() == context.DeadlineExceeded:
		return "", fmt.Errorf("no end within %s", execTimeout)
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err != nil:
		if e, ok := errors.AsType[*exec.ExitError](err); ok {
			return "", errors.New(e.ProcessState.String())
		}
		return "", cause(err)
	case out.over:
		return "", errors.New("more than 64 KiB of output")
	}
	return out.b.String(), nil
}

// limited keeps the first maxSecretBytes and drops the rest.
type limited struct {
	b    strings.Builder
	over bool
}

func (l *limited) Write(p []byte) (int, error) {
	if room := maxSecretBytes - l.b.Len(); len(p) > room {
		l.over = true
		l.b.Write(p[:room])
		return len(p), nil
	}
	return l.b.Write(p)
}

// name is the source for an error, hidden if it looks like a key in the wrong place.
func (s Secret) name() string {
	if s.source == fromExec {
		return s.String()
	}
	if mayBeSecret(s.ref) && !strings.ContainsAny(s.ref, `/\`) {
		return "named in the configuration"
	}
	if s.source == fromFile {
		return fileName(s.path)
	}
	return s.ref
}

var plainName = regexp.MustCompile(`^[A-Za-z0-9._/-]+$`)

// fileName is a path for an error, whole, since its end is what matters.
func fileName(path string) string {
	if plainName.MatchString(path) {
		return path
	}
	return strconv.Quote(path)
}

// String names the source: env:NAME, file:PATH, exec: with the command's
// first word, or (literal).
func (s Secret) String() string {
	switch s.source {
	case fromEnv, fromFile:
		return s.source + ":" + s.ref
	case fromExec:
		word, _, more := strings.Cut(s.ref, " ")
		if strings.Contains(word, "=") { // an assignment before the command
			return "exec:…"
		}
		if more {
			word += " …"
		}
		return "exec:" + word
	}
	return "(literal)"
}

// Format prints String, whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// MarshalText is String.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue is String.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// identity tells one declaration from another without giving it away.
func (s Secret) identity() string {
	if s.source == fromLiteral {
		return fromLiteral + ":" + digest([]byte(s.ref))
	}
	return s.source + ":" + s.ref
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// resolve is path as seen from dir.
func resolve(dir, path string) string {
	if filepath.IsAbs(path) || dir == "" {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}
