package gateway

import (
	"context"
	"crypto/sha256"
	"io"
	"os"
	"time"

	"failback/gateway/config"
	"failback/gateway/decision"
)

// watchEvery is how often files are looked at. Content is compared, not names
// or times: a secret mounted behind a symlink changes by the link.
const watchEvery = 2 * time.Second

// fingerprint is the content of every file the configuration depends on.
type fingerprint [sha256.Size]byte

// fingerprintOf reads the files of cfg. One that cannot be read has a content
// of its own, so that its coming back is a change too.
func fingerprintOf(ctx context.Context, cfg *config.Config) *fingerprint {
	sum := sha256.New()
	for _, path := range append([]string{cfg.Path}, cfg.Files()...) {
		if path == "" || ctx.Err() != nil {
			continue
		}
		_, _ = io.WriteString(sum, path+"\x00")
		if err := hashFile(sum, path); err != nil {
			_, _ = io.WriteString(sum, "\x00"+err.Error())
		}
	}
	return (*fingerprint)(sum.Sum(nil))
}

func hashFile(w io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}

// watch reloads when a file changed, once its content has stood still for a
// whole interval: half a file is not a configuration.
func (g *Gateway) watch(ctx context.Context) error {
	g.jobs.Register(jobConfiguration, watchEvery)
	last := g.seen.Load()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now := fingerprintOf(ctx, g.setup.Load().cfg)
		if *now == *last && *now != *g.seen.Load() {
			// What is refused is an event and part of the state.
			if _, err := g.Reload(ctx, decision.Auto); err != nil {
				g.o.Log("the configuration changed and was refused: " + err.Error())
			}
		}
		last = now
		g.jobs.Ran(jobConfiguration, nil)
	}
}
