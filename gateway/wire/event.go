package wire

import "bytes"

// event is what one frame of an event stream says.
type event struct {
	name []byte
	data []byte
	has  bool // it has data, maybe empty
	// stray is the first line that is no field of an event stream, and all
	// that follows it.
	stray []byte
	// whole says that the frame was ended by a blank line and not by the end
	// of the stream.
	whole bool
}

// parseEvent takes frame apart. Several data lines are joined in scratch, which
// is returned as it may have grown; all other slices are part of frame.
func parseEvent(frame, scratch []byte) (event, []byte) {
	var e event
	lines := 0
	for rest := frame; len(rest) > 0; {
		line, after := cutLine(rest)
		if len(line) == 0 {
			// A blank line at the start of a frame is the rest of the line end
			// of the frame before.
			e.whole = len(after) == 0
			rest = after
			continue
		}
		colon := bytes.IndexByte(line, ':')
		name, value := line, []byte(nil)
		if colon >= 0 {
			name, value = line[:colon], line[colon+1:]
			if len(value) > 0 && value[0] == ' ' {
				value = value[1:]
			}
		}
		switch string(name) {
		case "data":
			switch lines++; lines {
			case 1:
				e.data = value
			case 2:
				scratch = append(append(append(scratch[:0], e.data...), '\n'), value...)
			default:
				scratch = append(append(scratch, '\n'), value...)
			}
		case "event":
			e.name = value
		case "", "id", "retry":
		default:
			if e.stray == nil {
				e.stray = rest
			}
		}
		rest = after
	}
	e.has = lines > 0
	if lines > 1 {
		e.data = scratch
	}
	return e, scratch
}

// cutLine returns the first line of b, without its end, and what follows.
func cutLine(b []byte) (line, rest []byte) {
	n := bytes.IndexByte(b, '\n')
	line = b
	if n >= 0 {
		line = b[:n]
	}
	if r := bytes.IndexByte(line, '\r'); r >= 0 {
		if r+1 == n {
			return b[:r], b[n+1:]
		}
		return b[:r], b[r+1:]
	}
	if n < 0 {
		return b, nil
	}
	return line, b[n+1:]
}
