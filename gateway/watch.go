package gateway

import (
	"context"
	"crypto/sha256"
	"io"
	"os"
	"time"
)

// watchEvery is how often files are looked at. Content is compared, not names
// or times: a secret mounted behind a symlink changes by the link.
const watchEvery = 2 * time.Second

// fingerprint is the content of every file the configuration depends on.
type fingerprint [sha256.Size]byte

// fingerprint reads the files again. A file that cannot be read has a content
// of its own, so that its coming back is a change too.
func (g *Gateway) fingerprint(ctx context.Context) *fingerprint {
	sum := sha256.New()
	s := g.setup.Load()
	for _, path := range append([]string{s.cfg.Path}, s.cfg.Files()...) {
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
	g.seen.Store(g.fingerprint(ctx))
	last := g.seen.Load()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now := g.fingerprint(ctx)
		if *now == *last && *now != *g.seen.Load() {
			g.reloadFiles(ctx)
		}
		last = now
	}
}

// reloadFiles takes over what changed in the files. Errors are events and part
// of the state; what is in force stays.
func (g *Gateway) reloadFiles(ctx context.Context) {
	for _, c := range []*certificates{g.certs, g.opCerts} {
		if c == nil {
			continue
		}
		if err := c.reload(); err != nil {
			g.alarm(err.Error())
		}
	}
	if _, err := g.Reload(ctx, "auto"); err != nil {
		g.o.Log("the configuration changed and was refused: " + err.Error())
	}
}
