package launch

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"
)

// openLog opens path for appending, creating it and its directory for the
// owner alone, and returns where this start's output will begin.
func openLog(path string) (*os.File, int64, error) {
	// A pipe or a device would block or lose the output.
	if st, err := os.Stat(path); err == nil && !st.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("%s is not a regular file: move it away, the gateway's output goes there", path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, 0, fmt.Errorf("create the directory of the gateway's log: %w", err)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, 0, fmt.Errorf("open the gateway's log: %w", err)
	}
	st, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("open the gateway's log: %w", err), f.Close())
	}
	return f, st.Size(), nil
}

// The tail that an error carries.
const (
	tailBytes = 4096
	tailLines = 12
)

// tail returns the last lines that were written to path from offset from on,
// with everything but printable text made visible. It is empty if there are
// none or they cannot be read.
func tail(path string, from int64) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || st.Size() <= from {
		return ""
	}
	start := max(from, st.Size()-tailBytes)
	b, err := io.ReadAll(io.NewSectionReader(f, start, st.Size()-start))
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimRight(visible(b), "\n"), "\n")
	if start > from && len(lines) > 1 {
		lines = lines[1:] // it begins in the middle
	}
	return strings.Join(lines[max(len(lines)-tailLines, 0):], "\n")
}

// visible returns b as text that does nothing to a terminal.
func visible(b []byte) string {
	var s strings.Builder
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&s, `\x%02x`, b[0])
		case r == '\n' || r == '\t' || unicode.IsPrint(r):
			s.WriteRune(r)
		case r == '\r' && len(b) > 1 && b[1] == '\n':
		case r < 0x80:
			fmt.Fprintf(&s, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&s, `\u%04x`, r)
		default:
			fmt.Fprintf(&s, `\U%08x`, r)
		}
		b = b[n:]
	}
	return s.String()
}
