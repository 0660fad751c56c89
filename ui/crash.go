package ui

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"failback/sources"
	"failback/ui/text"
)

// maxPanic bounds what is kept of a panic's value.
const maxPanic = 500

// crash is a panic that was caught.
type crash struct {
	where, what string
	stack       []byte
	at          time.Time
}

func newCrash(where string, v any) *crash {
	c := &crash{where: where, what: safe(fmt.Sprint(v)), stack: debug.Stack(), at: time.Now()}
	if w, ok := v.(*sources.WorkerPanic); ok { // it happened there, and was raised again here
		c.stack = append(append(w.Stack, '\n'), c.stack...)
	}
	return c
}

// safe makes a panic's value fit to be shown and kept.
func safe(s string) string {
	s = text.Visible(secrets.ReplaceAllString(s, "[secret]"))
	if len(s) > maxPanic {
		s = strings.ToValidUTF8(s[:maxPanic], "") + "..."
	}
	return s
}

// secrets are shapes of tokens and keys. None should ever come near a panic;
// a crash file is mailed around.
var secrets = regexp.MustCompile(`(?i)\bauthorization["']?\s*[:=]\s*(\w+\s+)?\S+|\b(bearer|basic)\s+\S+|\b(sk|fb|key|tok|token|api[_-]?key|password|secret)["']?\s*[-_=:]\s*\S+`)

// report writes the crash file and returns the error that names it. The file
// has the stack, and nothing of the environment, the token or the traffic.
func (c *crash) report(o Options, m *model) error {
	var b strings.Builder
	fmt.Fprintf(&b, "failback console %s crashed in %s at %s\n", o.Version, c.where, c.at.UTC().Format(time.RFC3339))
	fmt.Fprintf(&b, "%s %s/%s, window %dx%d, screen %s, TERM %s\n\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, m.width, m.height, m.screen, text.Visible(environ(o.Environ, "TERM")))
	fmt.Fprintf(&b, "panic: %s\n\n%s", c.what, stackFrames(c.stack))
	e := &CrashError{What: c.what}
	path := filepath.Join(o.DataDir, "crash-"+stamp(c.at)+".txt")
	if os.MkdirAll(o.DataDir, 0o700) == nil && os.WriteFile(path, []byte(b.String()), 0o600) == nil {
		e.File = path
	}
	return e
}

// stackFrames is a stack without the values of arguments and without the
// panic's own text, which safe has not seen.
func stackFrames(stack []byte) string {
	var b strings.Builder
	for line := range strings.Lines(string(stack)) {
		switch {
		case strings.HasPrefix(line, "\t"):
			b.WriteString(line)
		case strings.HasPrefix(line, "panic("):
			b.WriteString("panic\n")
		default:
			if i := strings.LastIndexByte(line, '('); i > 0 {
				line = line[:i] + "\n"
			}
			b.WriteString(line)
		}
	}
	return b.String()
}
