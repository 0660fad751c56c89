package ui

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"failback/ui/text"
)

// keptLog is how many lines of its own log the console shows.
const keptLog = 500

// ownLog is what the console did and met, for `!` and a file. Update adds
// lines, a command writes them.
type ownLog struct {
	lines   []string // newest last
	pending []string // not yet in the file
}

func (l *ownLog) add(now time.Time, format string, args ...any) {
	s := now.UTC().Format("2006-01-02T15:04:05Z ") + text.Visible(fmt.Sprintf(format, args...))
	if len(l.lines) == keptLog {
		l.lines = append(l.lines[:0:0], l.lines[1:]...)
	}
	l.lines = append(l.lines, s)
	l.pending = append(l.pending, s)
}

// take returns the lines that are not in the file yet.
func (l *ownLog) take() []string {
	p := l.pending
	l.pending = nil
	return p
}

// maxLogFile is the size at which the file is put aside as NAME.1.
const maxLogFile = 1 << 20

// appendLines adds lines to a file of the console's.
func appendLines(dir, name string, lines []string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	path := filepath.Join(dir, name)
	if i, err := os.Stat(path); err == nil && i.Size() > maxLogFile {
		_ = os.Rename(path, path+".1") // else it goes on growing, which is no reason to lose lines
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	for _, s := range lines {
		if _, err := f.WriteString(s + "\n"); err != nil {
			f.Close()
			return err
		}
	}
	return f.Close()
}
