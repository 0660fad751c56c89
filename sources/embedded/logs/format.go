package logs

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// A segment's file holds the lines as they were written, one after the other.
// What they do not say themselves stands around them:
//
//	#{"service_name":"failback"}     the labels of the lines from here on
//	@1795996500000000000+9 {"event":  a line of 9 bytes that does not tell its time
//
// A line that begins with one of these signs, or is not one JSON object, gets a
// time, too. So the index can be made again from the file alone, and what is
// neither is damaged.
const (
	streamSign = '#'
	timeSign   = '@'
)

// appendStream appends the line that begins a stream.
func appendStream(b []byte, labels map[string]string) []byte {
	text, _ := json.Marshal(labels) // of strings alone: never fails
	b = append(b, streamSign)
	b = append(b, text...)
	return append(b, '\n')
}

// needsTime reports whether a line needs a time in front: its own is ts; whole:
// it is one JSON object.
func needsTime(line []byte, ts int64, whole bool) bool {
	return ts == noTime || !whole || line[0] == streamSign || line[0] == timeSign
}

// appendTime appends what stands in front of a line of n bytes.
func appendTime(b []byte, ts int64, n int) []byte {
	b = append(b, timeSign)
	b = strconv.AppendInt(b, ts, 10)
	b = append(b, '+')
	b = strconv.AppendInt(b, int64(n), 10)
	return append(b, ' ')
}

// record is one line of a segment's file.
type record struct {
	labels map[string]string // of the lines that follow; nil for a line
	start  int               // of the line's text
	ts     int64             // in front of it, or noTime
}

// parseRecord reads a line of a segment's file, without its end. ok is false
// for what no store wrote.
func parseRecord(b []byte) (r record, ok bool) {
	r.ts = noTime
	if len(b) == 0 {
		return r, false
	}
	switch b[0] {
	case streamSign:
		ok = json.Unmarshal(b[1:], &r.labels) == nil && r.labels != nil
	case timeSign:
		at := bytes.IndexByte(b, ' ')
		if at < 0 || at+1 == len(b) {
			return r, false
		}
		time, length, sized := strings.Cut(string(b[1:at]), "+")
		ts, err := strconv.ParseInt(time, 10, 64)
		r.start, r.ts, ok = at+1, ts, err == nil && (!sized || length == strconv.Itoa(len(b)-at-1))
	default:
		ok = true
	}
	return r, ok
}
