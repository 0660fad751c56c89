package ui

import (
	"bytes"
	"regexp"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	pasteStart = "\x1b[200~"
	pasteEnd   = "\x1b[201~"
	// pasteStall is how long a paste may bring nothing: one that came over a slow
	// connection brings its next piece before. What is behind it is from a keyboard.
	pasteStall = 2 * time.Second
	// pasteMost is how large a paste may be, in bytes: no field takes so much.
	pasteMost = 64 << 10
	// pasteQuiet is how long nothing may come behind the first key after a stall:
	// else that was the paste, which went on.
	pasteQuiet = 300 * time.Millisecond
)

// pastes follows bracketed pastes (xterm's mode 2004) over what a terminal sends,
// and ends those that do not end: without the end all keys would be text of the
// paste, ctrl+c too. What is pasted is passed on as text alone: a control sequence
// in it could hide its end. The zero value is ready; it is not safe for
// concurrent use.
type pastes struct {
	state pasteState
	csi   csiState
	code  int       // first number of the sequence
	began bool      // it began in a read before this one
	size  int       // bytes of the paste
	held  []byte    // a part of the end, or of a character
	last  time.Time // of the last read
}

type pasteState uint8

const (
	noPaste   pasteState = iota
	openPaste            // its text is passed on
	overPaste            // it was ended by its size; its text is left out
	lostPaste            // it was ended by a stall, and may still go on
)

type csiState uint8

const (
	noCSI csiState = iota
	escCSI
	firstCSI // digits of the first number
	restCSI
)

// take appends to out what in, read at now, stands for. It is more than in by at
// most what was held and by 12 bytes for each sequence in it.
func (p *pastes) take(out, in []byte, now time.Time) []byte {
	gap := now.Sub(p.last)
	p.last, p.began = now, p.csi != noCSI
	if len(in) == 0 {
		return out
	}
	open := p.state == openPaste
	switch {
	case p.state == noPaste:
	case isInterrupt(in):
		p.state, p.held = noPaste, nil
	case p.state == lostPaste && gap >= pasteQuiet:
		p.state, p.held = noPaste, nil
	case p.state != lostPaste && gap >= pasteStall && string(in) != pasteEnd:
		p.state, p.held = lostPaste, nil
		if open {
			out = append(out, pasteEnd...)
		}
		if isOneKey(in) {
			return append(out, in...)
		}
		open = false
	}
	if open && p.state == noPaste {
		out = append(out, pasteEnd...)
	}
	for _, c := range in {
		if p.state == noPaste {
			out = p.key(append(out, c), c)
		} else {
			out = p.text(out, c)
		}
	}
	return out
}

// key follows a byte that is not pasted, which out ends with.
func (p *pastes) key(out []byte, c byte) []byte {
	switch {
	case c == '\x1b':
		p.csi, p.began = escCSI, false
	case c == '\x9b', p.csi == escCSI && c == '[':
		p.began = p.began || c == '\x9b' // else written anew, as it may not be understood
		p.csi, p.code = firstCSI, 0
	case p.csi == firstCSI && c >= '0' && c <= '9':
		p.code = min(p.code*10+int(c-'0'), 1000)
	case p.csi >= firstCSI && c >= 0x20 && c < 0x40:
		p.csi, p.began = restCSI, true
	case p.csi >= firstCSI && c == '~' && p.code == 200:
		p.csi = noCSI
		p.state, p.size, p.held = openPaste, 0, nil
		if p.began { // its parts may have been taken for keys
			out = append(out, pasteStart...)
		}
	default:
		p.csi = noCSI
	}
	return out
}

// text takes a byte of a paste.
func (p *pastes) text(out []byte, c byte) []byte {
	if p.size++; p.size > pasteMost && p.state == openPaste {
		p.state = overPaste
		out = append(out, pasteEnd...)
	}
	switch n := len(p.held); {
	case n > 0 && p.held[0] == '\x1b' && c == pasteEnd[n]:
		if p.held = append(p.held, c); len(p.held) == len(pasteEnd) {
			if p.state == openPaste {
				out = append(out, pasteEnd...)
			}
			p.state, p.held = noPaste, nil
		}
		return out
	case n > 0 && p.held[0] == '\x1b': // another sequence: without its escape it is text
		if p.state == openPaste {
			out = append(out, p.held[1:]...)
		}
		p.held = p.held[:0]
	case n > 0 && c < utf8.RuneSelf: // half a character
		p.held = p.held[:0]
	}
	switch {
	case c == '\x1b':
		p.held = append(p.held, c)
	case c >= utf8.RuneSelf:
		if p.held = append(p.held, c); !utf8.FullRune(p.held) {
			return out
		}
		if r, n := utf8.DecodeRune(p.held); n == len(p.held) && r != utf8.RuneError && !unicode.IsControl(r) && p.state == openPaste {
			out = append(out, p.held...)
		}
		p.held = p.held[:0]
	case p.state == openPaste && (c >= ' ' && c != '\x7f' || c == '\t' || c == '\n' || c == '\r'):
		out = append(out, c)
	}
	return out
}

// interrupt is ctrl+c, as it is, by the kitty keyboard protocol, and by xterm's
// modifyOtherKeys.
var interrupt = regexp.MustCompile(`^(?:\x03|\x1b\[99(?::[0-9:]*)?;([0-9]{1,3})(?::1)?(?:;[0-9:]*)?u|\x1b\[27;([0-9]{1,3});99~)`)

// isInterrupt reports whether b is ctrl+c, once or more, and nothing else.
func isInterrupt(b []byte) bool {
	for len(b) > 0 {
		m := interrupt.FindSubmatch(b)
		if m == nil {
			return false
		}
		for _, mod := range m[1:] {
			if n, err := strconv.Atoi(string(mod)); err == nil && (n-1)&4 == 0 {
				return false
			}
		}
		b = b[len(m[0]):]
	}
	return true
}

// keySequence is what a key that is no character sends, whole.
var keySequence = regexp.MustCompile(`^\x1b(?:\[[0-9;:]{0,20}[A-Za-z~]|O[A-Za-z]|[^\x00-\x1f\x7f-\x{9f}\[\]OPX^_])?$`)

// isOneKey reports whether b is what a single key sends.
func isOneKey(b []byte) bool {
	if b[0] == '\x1b' {
		return keySequence.Match(b) && !bytes.Contains(b, []byte("200"))
	}
	return utf8.Valid(b) && utf8.RuneCount(b) == 1
}
