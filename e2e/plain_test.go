package e2e

import (
	"context"
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"failback/gateway/operator/api"
)

// plainOf, set in the environment to what to connect to, has this test's own
// program be the plainest console there can be: it asks what a console asks each
// second, and writes a screen of lines. What it costs is what asking and drawing
// cost on this machine at this time.
const plainOf = "FAILBACK_E2E_PLAIN"

type plain struct {
	client *api.Client
	now    time.Time
	state  *api.State
}

type (
	plainTick  time.Time
	plainState *api.State
)

func (p *plain) Init() tea.Cmd { return p.tick() }

func (p *plain) tick() tea.Cmd {
	return tea.Every(time.Second, func(t time.Time) tea.Msg { return plainTick(t) })
}

func (p *plain) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case plainTick:
		ctx := context.Background()
		return p, tea.Batch(p.tick(),
			func() tea.Msg { s, _ := p.client.State(ctx); return plainState(s) },
			func() tea.Msg { _, _ = p.client.Decisions(ctx, api.Filter{Limit: 20}); return nil },
			func() tea.Msg { _, _ = p.client.Events(ctx, 0); return nil })
	case plainState:
		p.state, p.now = msg, time.Now()
	}
	return p, nil
}

func (p *plain) View() tea.View {
	var b strings.Builder
	if p.state != nil {
		fmt.Fprintf(&b, "%s %s\n", p.now.Format(time.TimeOnly), p.state.Environment)
		for i := range 28 {
			fmt.Fprintf(&b, "%d %s\n", i, strings.Repeat("x", 90))
		}
	}
	return tea.View{Content: b.String(), AltScreen: true}
}

// runPlain is that program.
func runPlain(target string) error {
	c, err := api.NewClient(target, api.Options{})
	if err != nil {
		return err
	}
	_, err = tea.NewProgram(&plain{client: c}, tea.WithFPS(20)).Run()
	return err
}
