package ui

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/gomono"
	"golang.org/x/image/font/gofont/gomonobold"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
)

var picturesTo = flag.String("pictures", "", "write the pictures of the documentation into this directory")

// pictures are the situations that the documentation shows, by file name.
var pictures = []struct {
	file, situation string
	w, h            int
}{
	{"overview", "healths", 100, 30},
	{"calm", "calm", 100, 30},
	{"failback", "planned", 100, 30},
	{"decision", "decision", 100, 30},
	{"incident", "incident-open", 100, 30},
	{"runbook", "runbook-step", 100, 30},
	{"logs", "logs-answer", 100, 30},
	{"dialog", "recovering-dialog", 100, 30},
}

// maxPicture bounds a picture in bytes.
const maxPicture = 150_000

// TestPictures draws the screens that the documentation shows, from what the
// console really draws: each character has a glyph, and no file is large.
func TestPictures(t *testing.T) {
	if testing.Short() {
		t.Skip("requires a run without -short: drawing takes seconds")
	}
	pen, err := newPen()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pictures {
		t.Run(p.file, func(t *testing.T) {
			var content string
			inSituation(t, p.situation, p.w, p.h, func(_ *testing.T, m *model) { content = m.View().Content })
			img, err := pen.picture(content, p.w, p.h)
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, img); err != nil {
				t.Fatal(err)
			}
			if b.Len() > maxPicture {
				t.Errorf("%d bytes, more than %d", b.Len(), maxPicture)
			}
			if *picturesTo == "" {
				return
			}
			if err := os.WriteFile(filepath.Join(*picturesTo, p.file+".png"), b.Bytes(), 0o666); err != nil {
				t.Fatal(err)
			}
			t.Logf("%s.png: %d bytes", p.file, b.Len())
		})
	}
}

// The size of a cell and of the margin, in pixels.
const (
	cellW, cellH = 12, 25
	baseline     = 19
	fontSize     = 20 // Go Mono is 0.6 of it wide
	margin       = 14
	shades       = 15 // of each colour on its ground
)

// The colours of a terminal: its ground, its text and the sixteen.
var (
	ground = color.RGBA{0x16, 0x18, 0x1d, 0xff}
	ink    = color.RGBA{0xd6, 0xd8, 0xdc, 0xff}
	ansi16 = [16]color.RGBA{
		{0x16, 0x18, 0x1d, 0xff}, {0xd8, 0x4a, 0x4a, 0xff}, {0x6f, 0xbf, 0x5f, 0xff}, {0xd9, 0xa9, 0x3a, 0xff}, {0x5a, 0x8f, 0xe0, 0xff}, {0xb5, 0x77, 0xd0, 0xff}, {0x4f, 0xb8, 0xc4, 0xff}, {0xd6, 0xd8, 0xdc, 0xff},
		{0x6b, 0x70, 0x7b, 0xff}, {0xff, 0x6b, 0x6b, 0xff}, {0x8f, 0xe0, 0x7f, 0xff}, {0xff, 0xd0, 0x6b, 0xff}, {0x7f, 0xb0, 0xff, 0xff}, {0xd7, 0x9f, 0xf0, 0xff}, {0x7f, 0xe0, 0xea, 0xff}, {0xff, 0xff, 0xff, 0xff},
	}
)

// pen draws characters in cells.
type pen struct {
	regular, bold face
}

type face struct {
	font *sfnt.Font
	face font.Face
}

func newFace(ttf []byte) (f face, err error) {
	if f.font, err = opentype.Parse(ttf); err != nil {
		return f, err
	}
	f.face, err = opentype.NewFace(f.font, &opentype.FaceOptions{Size: fontSize, DPI: 72, Hinting: font.HintingFull})
	return f, err
}

func newPen() (*pen, error) {
	r, err := newFace(gomono.TTF)
	b, err2 := newFace(gomonobold.TTF)
	return &pen{r, b}, errors.Join(err, err2)
}

// look is how a character looks.
type look struct {
	fg                  color.RGBA
	bold, dim, reversed bool
}

// colours returns the colours of text and ground.
func (l look) colours() (fg, bg color.RGBA) {
	fg, bg = l.fg, ground
	if l.dim {
		fg = mix(fg, bg, 0.58)
	}
	if l.reversed {
		fg, bg = bg, fg
	}
	return fg, bg
}

func mix(a, b color.RGBA, part float64) color.RGBA {
	m := func(x, y uint8) uint8 { return uint8(float64(x)*part + float64(y)*(1-part)) }
	return color.RGBA{m(a.R, b.R), m(a.G, b.G), m(a.B, b.B), 0xff}
}

// sgr applies the parameters of one sequence.
func (l look) sgr(params string) (look, error) {
	for p := range strings.SplitSeq(params, ";") {
		n, err := strconv.Atoi(p)
		switch {
		case p == "":
			l = look{fg: ink}
		case err != nil:
			return l, err
		case n == 0:
			l = look{fg: ink}
		case n == 1:
			l.bold = true
		case n == 2:
			l.dim = true
		case n == 7:
			l.reversed = true
		case n == 22:
			l.bold, l.dim = false, false
		case n == 27:
			l.reversed = false
		case n == 39:
			l.fg = ink
		case 30 <= n && n <= 37:
			l.fg = ansi16[n-30]
		case 90 <= n && n <= 97:
			l.fg = ansi16[n-90+8]
		default:
			return l, fmt.Errorf("SGR %d is none of the console's", n)
		}
	}
	return l, nil
}

// picture draws the content of a frame of w columns and h rows.
func (p *pen) picture(content string, w, h int) (image.Image, error) {
	c := &canvas{Paletted: image.NewPaletted(image.Rect(0, 0, w*cellW+2*margin, h*cellH+2*margin), color.Palette{ground}), of: map[color.RGBA]uint8{ground: 0}}
	var missing error
	for y, line := range strings.Split(content, "\n") {
		l, x := look{fg: ink}, 0
		for line != "" {
			if m := sgr.FindStringSubmatchIndex(line); m != nil && m[0] == 0 {
				next, err := l.sgr(line[m[2]:m[3]])
				if err != nil {
					return nil, err
				}
				l, line = next, line[m[1]:]
				continue
			}
			cluster, n := ansi.FirstGraphemeCluster(line, ansi.GraphemeWidth)
			line = line[len(cluster):]
			if err := p.cell(c, margin+x*cellW, margin+y*cellH, []rune(cluster), l); err != nil {
				missing = errors.Join(missing, fmt.Errorf("row %d, column %d: %w", y+1, x+1, err))
			}
			x += n
		}
	}
	if len(c.Palette) > 256 {
		return nil, fmt.Errorf("%d colours are more than a palette has", len(c.Palette))
	}
	return c.Paletted, missing
}

// canvas is an image whose palette grows.
type canvas struct {
	*image.Paletted
	of map[color.RGBA]uint8
}

func (c *canvas) set(x, y int, v color.RGBA) {
	i, ok := c.of[v]
	if !ok {
		i = uint8(len(c.Palette))
		c.Palette, c.of[v] = append(c.Palette, v), i
	}
	c.SetColorIndex(x, y, i)
}

func (c *canvas) fill(x, y, w, h int, v color.RGBA) {
	for i := range w {
		for j := range h {
			c.set(x+i, y+j, v)
		}
	}
}

// cell draws one character at a pixel.
func (p *pen) cell(c *canvas, x, y int, cluster []rune, l look) error {
	fg, bg := l.colours()
	if bg != ground {
		c.fill(x, y, cellW, cellH, bg)
	}
	r := cluster[0]
	if len(cluster) > 1 {
		return fmt.Errorf("%q is more than one character", string(cluster))
	}
	midX, midY := cellW/2-1, cellH/2-1
	// Rules and blocks reach to the edges of their cells, which no font's do.
	switch {
	case r == ' ':
		return nil
	case strings.ContainsRune("─│┌┐└┘├┤┬┴┼", r):
		if strings.ContainsRune("─┐┘┤┬┴┼", r) {
			c.fill(x, y+midY, midX+2, 2, fg)
		}
		if strings.ContainsRune("─┌└├┬┴┼", r) {
			c.fill(x+midX, y+midY, cellW-midX, 2, fg)
		}
		if strings.ContainsRune("│└┘├┤┴┼", r) {
			c.fill(x+midX, y, 2, midY+2, fg)
		}
		if strings.ContainsRune("│┌┐├┤┬┼", r) {
			c.fill(x+midX, y+midY, 2, cellH-midY, fg)
		}
		return nil
	case '▁' <= r && r <= '█':
		n := (cellH - 4) * int(r-'▁'+1) / 8
		c.fill(x, y+cellH-2-n, cellW-1, n, fg)
		return nil
	}
	f := p.regular
	if l.bold {
		f = p.bold
	}
	if i, err := f.font.GlyphIndex(nil, r); err != nil || i == 0 {
		return fmt.Errorf("Go Mono has no glyph of %q (%U): %v", r, r, err)
	}
	dr, mask, at, _, ok := f.face.Glyph(fixed.P(x, y+baseline), r)
	if !ok {
		return fmt.Errorf("%q has no outline", r)
	}
	for j := dr.Min.Y; j < dr.Max.Y; j++ {
		for i := dr.Min.X; i < dr.Max.X; i++ {
			_, _, _, a := mask.At(at.X+i-dr.Min.X, at.Y+j-dr.Min.Y).RGBA()
			if shade := int(a) * shades / 0xffff; shade > 0 {
				c.set(i, j, mix(fg, bg, float64(shade)/shades))
			}
		}
	}
	return nil
}
