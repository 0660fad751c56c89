package metrics

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// repeatAfter is how long a line that was said is not said again: a full disk
// fails every scrape.
const repeatAfter = 10 * time.Minute

// journal passes lines on to Options.Log, the same one not too often.
type journal struct {
	out func(string)

	// mu guards everything that follows.
	mu   sync.Mutex
	said map[string]time.Time
}

func newJournal(out func(string)) *journal {
	return &journal{out: out, said: map[string]time.Time{}}
}

// say logs text. Texts of one kind are one: only the first of them is logged
// for a while.
func (j *journal) say(kind, text string) {
	now := time.Now()
	j.mu.Lock()
	at, known := j.said[kind]
	again := known && now.Sub(at) < repeatAfter && !now.Before(at)
	if !again {
		if len(j.said) >= 64 {
			clear(j.said)
		}
		j.said[kind] = now
	}
	j.mu.Unlock()
	if !again {
		j.out(oneLine(text))
	}
}

// oneLine joins the lines of errors that have several.
func oneLine(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}

// slog returns a logger for the libraries; warnings and errors come through.
func (j *journal) slog(part string) *slog.Logger {
	return slog.New(&lines{j: j, prefix: "metrics " + part + ": "})
}

// lines makes a line of each record.
type lines struct {
	j      *journal
	prefix string
	attrs  string
}

func (l *lines) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

func (l *lines) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString(l.prefix)
	b.WriteString(r.Message)
	b.WriteString(l.attrs)
	r.Attrs(func(a slog.Attr) bool {
		// Of a query that broke the engine: whoever asked it chose the text.
		if a.Key != "expr" && a.Key != "stacktrace" {
			writeAttr(&b, a)
		}
		return true
	})
	l.j.say(l.prefix+r.Message, b.String())
	return nil
}

func (l *lines) WithAttrs(attrs []slog.Attr) slog.Handler {
	var b strings.Builder
	b.WriteString(l.attrs)
	for _, a := range attrs {
		writeAttr(&b, a)
	}
	return &lines{j: l.j, prefix: l.prefix, attrs: b.String()}
}

func (l *lines) WithGroup(string) slog.Handler { return l }

func writeAttr(b *strings.Builder, a slog.Attr) {
	value := a.Value.Resolve().String()
	if len(value) > 2000 {
		value = value[:2000] + "..."
	}
	fmt.Fprintf(b, " %s=%q", a.Key, value)
}
