package text

import (
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"failback/gateway/operator/api"
)

// pageWidth is how wide the paragraphs of the text commands are.
const pageWidth = 80

// paragraph writes s, which is fit to show, beside a label, in lines of
// pageWidth.
func paragraph(b *strings.Builder, indent int, label, s string) {
	labelWidth := max(12, ansi.StringWidth(label)+1)
	for i, l := range strings.Split(ansi.Wrap(s, pageWidth-indent-labelWidth, " "), "\n") {
		if i > 0 {
			label = ""
		}
		head := strings.Repeat(" ", indent) + label
		b.WriteString(head + strings.Repeat(" ", max(indent+labelWidth-ansi.StringWidth(head), 1)) + l + "\n")
	}
}

// Evidence writes what speaks for and against the next step up of u: the
// evidence of its step, or its probes while it is degraded; empty if the
// gateway has neither. now is the gateway's clock.
func Evidence(u *api.Upstream, now time.Time) string {
	var b strings.Builder
	evidence(&b, 0, u, now)
	return b.String()
}

func evidence(b *strings.Builder, indent int, u *api.Upstream, now time.Time) {
	switch e := u.Evidence; {
	case e != nil:
		paragraph(b, indent, "evidence", EvidenceHead(e, now))
		for _, r := range e.Rows {
			paragraph(b, indent+2, Visible(r.Verdict), EvidenceName(r.Name)+": "+Visible(r.Text))
		}
		paragraph(b, indent, "baseline", Baseline(e))
	case u.Health == api.Degraded:
		_, why := Recovery(u, now)
		paragraph(b, indent, "evidence", "to leave degraded: "+why)
		for i := range u.Probes {
			verdict, why := ProbeStanding(&u.Probes[i], now)
			paragraph(b, indent+2, verdict, why)
		}
	}
}

// healths writes of each upstream that is not plainly healthy what it is judged
// by, and what its way back waits for.
func healths(s *api.State, now time.Time) string {
	var b strings.Builder
	for i := range s.Upstreams {
		u := &s.Upstreams[i]
		red := signals(u, now)
		if u.Health == "" || u.Health == api.Healthy && u.Evidence == nil && u.Plan == nil && !strings.HasPrefix(red, "red") {
			continue
		}
		b.WriteByte('\n')
		b.WriteString(strings.TrimRight(ansi.Wrap(Visible(u.Name)+"  "+HealthWhole(u, now), pageWidth, " "), "\n") + "\n")
		if red != "" {
			paragraph(&b, 2, "signals", red)
		}
		evidence(&b, 2, u, now)
		if u.Plan != nil {
			paragraph(&b, 2, "plan", PlanText(u, s.Failback.Advance, now))
		}
		if u.Retreats > 0 {
			paragraph(&b, 2, "retreats", strconv.Itoa(u.Retreats)+" in this failback")
		}
	}
	return b.String()
}

// signals writes the signals of u in few words, the red ones first.
func signals(u *api.Upstream, now time.Time) string {
	var red, unknown, green []string
	for i := range u.Signals {
		g := &u.Signals[i]
		name := Visible(g.Name)
		switch g.Colour {
		case api.Red:
			s := name + " " + Visible(g.Value)
			if !g.At.IsZero() {
				s += " (" + Age(now.Sub(g.At)) + " old)"
			}
			red = append(red, s)
		case api.Green:
			green = append(green, name)
		default:
			unknown = append(unknown, name)
		}
	}
	var parts []string
	for _, p := range []struct {
		colour string
		of     []string
	}{{api.Red, red}, {api.Unknown, unknown}, {api.Green, green}} {
		if len(p.of) > 0 {
			parts = append(parts, p.colour+": "+strings.Join(p.of, ", "))
		}
	}
	return strings.Join(parts, "; ")
}
