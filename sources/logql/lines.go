package logql

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"strconv"
	"time"
)

// Lines is a Source in memory. It is safe for concurrent use.
type Lines struct {
	entries []Entry // by time, equal ones in order of arrival
}

var _ Partitioned = (*Lines)(nil)

// NewLines makes a source of entries, in any order; those of equal time keep
// theirs. The entries belong to it from now on.
func NewLines(entries []Entry) *Lines {
	slices.SortStableFunc(entries, func(a, b Entry) int { return cmp.Compare(a.TS, b.TS) })
	return &Lines{entries}
}

// ReadLines reads lines of a decision log, whose "time" is their time and which
// all get these labels, or objects {"ts":"Unix nanoseconds","labels":{…},
// "line":"…"}, which have their own. Empty lines are passed over. What is
// neither is handed to skip, with an error that names the line, and left out;
// skip nil: it is the error. A line of more than 16 MiB is an error always: what
// has one is no log.
func ReadLines(r io.Reader, labels Labels, skip func(error)) (*Lines, error) {
	labels = slices.Clone(labels)
	sortLabels(labels)
	sets := map[string]Labels{}
	br := bufio.NewReaderSize(r, 64<<10)
	if mark, err := br.Peek(len(byteOrderMark)); err == nil && string(mark) == byteOrderMark {
		_, _ = br.Discard(len(byteOrderMark)) // they were peeked at
	}
	var entries []Entry
	for n := 1; ; n++ {
		raw, err := nextLine(br)
		if err != nil && err != io.EOF {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if line := bytes.TrimRight(raw, "\r\n"); len(bytes.TrimSpace(line)) > 0 {
			e, lerr := readLine(line, labels, sets)
			if lerr != nil {
				lerr = fmt.Errorf("line %d: %w", n, lerr)
				if skip == nil {
					return nil, lerr
				}
				skip(lerr)
			} else {
				entries = append(entries, e)
			}
		}
		if err == io.EOF {
			return NewLines(entries), nil
		}
	}
}

const (
	byteOrderMark = "\xef\xbb\xbf"
	// longestLine is how many bytes a line of a file may have.
	longestLine = 16 << 20
)

// nextLine reads up to the next end of a line.
func nextLine(br *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := br.ReadSlice('\n')
		if len(line)+len(part) > longestLine {
			return nil, fmt.Errorf("it has more than %d MiB, which no line of a log has", longestLine>>20)
		}
		line = append(line, part...)
		if err != bufio.ErrBufferFull {
			return line, err
		}
	}
}

// readLine reads one line in either form.
func readLine(line []byte, labels Labels, sets map[string]Labels) (Entry, error) {
	var at, ts []byte
	var wrapped bool
	var sc jsonScanner
	if sc.open(line) {
		for sc.next() {
			switch string(sc.key) {
			case "time":
				at = sc.val
			case "ts":
				ts = sc.val
			case "line":
				wrapped = true
			}
			if !sc.after() {
				break
			}
		}
	}
	if sc.err != "" {
		return Entry{}, fmt.Errorf("not a JSON object: %s", sc.err)
	}
	if !wrapped || ts == nil {
		if at == nil {
			return Entry{}, errors.New(`no "time" in it, which a line of a decision log has`)
		}
		t, err := time.Parse(time.RFC3339Nano, string(at))
		if err != nil {
			return Entry{}, fmt.Errorf(`its "time" is not RFC 3339: %w`, err)
		}
		if !time.Unix(0, t.UnixNano()).Equal(t) {
			return Entry{}, errors.New(`its "time" is not between the years 1678 and 2262`)
		}
		return Entry{TS: t.UnixNano(), Labels: labels, Line: line}, nil
	}
	var rec struct {
		Labels map[string]string `json:"labels"`
		Line   string            `json:"line"`
	}
	if err := json.Unmarshal(line, &rec); err != nil {
		return Entry{}, err
	}
	n, err := strconv.ParseInt(string(ts), 10, 64)
	if err != nil {
		return Entry{}, fmt.Errorf(`its "ts" is not Unix nanoseconds: %w`, err)
	}
	own := make(Labels, 0, len(rec.Labels))
	for k, v := range rec.Labels {
		own = append(own, Label{k, v})
	}
	sortLabels(own)
	if have, ok := sets[own.String()]; ok {
		own = have
	} else {
		sets[own.String()] = own
	}
	return Entry{TS: n, Labels: own, Line: []byte(rec.Line)}, nil
}

// Len is the number of lines.
func (l *Lines) Len() int { return len(l.entries) }

// between returns the entries in [start, end).
func (l *Lines) between(start, end int64) []Entry {
	from := sort.Search(len(l.entries), func(i int) bool { return l.entries[i].TS >= start })
	to := sort.Search(len(l.entries), func(i int) bool { return l.entries[i].TS >= end })
	return l.entries[from:max(from, to)]
}

// Select yields entries; see Source.
func (l *Lines) Select(ctx context.Context, s Selection, yield func(Entry) bool) error {
	entries := l.between(s.Start, s.End)
	var stream Labels
	matches := false
	work := freely{every: 1}
	if err := work.Begin(ctx); err != nil {
		return err
	}
	defer work.End(ctx)
	for i := range entries {
		if err := work.line(ctx); err != nil {
			return err
		}
		e := &entries[i]
		if !s.Forward {
			e = &entries[len(entries)-1-i]
		}
		if i == 0 || !sameLabels(stream, e.Labels) {
			stream = e.Labels
			matches = MatchAll(s.Matchers, stream)
		}
		if matches && !yield(*e) {
			return nil
		}
	}
	return nil
}

func sameLabels(a, b Labels) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// MatchAll says whether the labels of a stream fulfil all matchers.
func MatchAll(ms []Matcher, l Labels) bool {
	for i := range ms {
		if !ms[i].Matches(l.Get(ms[i].Name)) {
			return false
		}
	}
	return true
}

// minPart is how many entries are worth a part of their own.
const minPart = 2000

// Partitions cuts the selection into stretches of time.
func (l *Lines) Partitions(s Selection, n int) []Source {
	entries := l.between(s.Start, s.End)
	n = max(1, min(n, len(entries)/minPart))
	parts := make([]Source, 0, n)
	for i := range n {
		k := i
		if !s.Forward {
			k = n - 1 - i
		}
		parts = append(parts, &Lines{entries[len(entries)*k/n : len(entries)*(k+1)/n]})
	}
	return parts
}
