package ui

import "failback/ui/text"

// style is what a span means; how that looks is the theme's.
type style uint8

const (
	normal   style = iota
	dim            // not as young as it should be, off, or of less weight
	strong         // what the eye must find
	good           // fresh and well
	warn           // look here
	bad            // clients are or may be hurt
	accent         // keys and names of panels
	reversed       // environment, FROZEN
)

// weightStyle is how what happened looks, by its weight.
var weightStyle = [...]style{text.Calm: normal, text.Notable: warn, text.Grave: bad}

// theme turns spans into text for one kind of terminal.
type theme struct {
	colour bool // false: NO_COLOR
	ascii  bool
}

// The attributes and colours of each style: SGR parameters, the 16 ANSI
// colours and no background. Without colour the attributes stay.
var (
	sgrColour = [...]string{
		normal: "", dim: "2", strong: "1", good: "32", warn: "33", bad: "1;31", accent: "36", reversed: "1;7",
	}
	sgrPlain = [...]string{
		normal: "", dim: "2", strong: "1", good: "", warn: "1", bad: "1", accent: "", reversed: "1;7",
	}
)

func (t theme) paint(st style, s string) string {
	p := sgrPlain[st]
	if t.colour {
		p = sgrColour[st]
	}
	if p == "" || s == "" {
		return s
	}
	return "\x1b[" + p + "m" + s + "\x1b[m"
}

// outside makes text from outside fit to show.
func (t theme) outside(s string) string {
	if t.ascii {
		return text.ASCII(s)
	}
	return text.Visible(s)
}

// glyphs are the few characters that are not ASCII where the terminal has them.
type glyphs struct {
	rule, side          string
	topLeft, topRight   string
	downLeft, downRight string
	cut                 string // what was cut off
}

func (t theme) glyphs() glyphs {
	if t.ascii {
		return glyphs{"-", "|", "+", "+", "+", "+", "~"}
	}
	return glyphs{"─", "│", "┌", "┐", "└", "┘", "…"}
}
