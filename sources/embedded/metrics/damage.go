package metrics

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/util/compression"
)

const walCompression = compression.Snappy

// damagedPrefix begins the names of the directories that hold what was set
// aside. They are inside the data directory: it can be the root of a volume,
// which cannot be renamed.
const damagedPrefix = "damaged-"

// openOrSetAside opens the TSDB of o. What cannot be opened is set aside: the
// blocks that are damaged if it is only them, else everything. So is what is
// from the future of now.
func openOrSetAside(o Options, now time.Time, log *journal) (*tsdb.DB, error) {
	if err := os.MkdirAll(o.Dir, 0o750); err != nil {
		return nil, err
	}
	db, err := openTSDB(o, log)
	if err != nil && isDamage(err) {
		blocks, listErr := damagedBlocks(o.Dir, nil)
		if listErr != nil {
			return nil, listErr
		}
		if len(blocks) > 0 {
			if asideErr := setAside(o.Dir, blocks, err.Error(), log); asideErr != nil {
				return nil, asideErr
			}
			db, err = openTSDB(o, log)
		}
	}
	if err != nil && isDamage(err) {
		return reopenEmpty(o, err.Error(), log)
	}
	if err != nil {
		return nil, err
	}
	if newest, some := newestSample(db); some && newest.Sub(now) > ahead {
		return reopenWithoutFuture(o, db, newest, now, log)
	}
	// A block whose description cannot be read is no error to the TSDB, but
	// would be complained about for ever.
	if unread, err := damagedBlocks(o.Dir, db.Blocks()); err == nil && len(unread) > 0 {
		if err := setAside(o.Dir, unread, "not readable", log); err != nil {
			log.say("set aside", "metrics store: "+err.Error())
		}
	}
	return db, nil
}

// reopenEmpty sets everything aside and opens what is left: nothing.
func reopenEmpty(o Options, why string, log *journal) (*tsdb.DB, error) {
	all, err := contents(o.Dir)
	if err != nil {
		return nil, err
	}
	if err := setAside(o.Dir, all, why, log); err != nil {
		return nil, err
	}
	return openTSDB(o, log)
}

// openTSDB is tsdb.Open whose panics over unforeseen bytes are errors.
func openTSDB(o Options, log *journal) (db *tsdb.DB, err error) {
	defer func() {
		if p := recover(); p != nil {
			db, err = nil, fmt.Errorf("open: %v", p)
		}
	}()
	db, err = tsdb.Open(o.Dir, log.slog("store"), nil, tsdbOptions(o), nil)
	switch {
	case errors.Is(err, syscall.EAGAIN):
		return nil, fmt.Errorf("another process has it open: %w", err)
	case err != nil:
		return nil, err
	}
	return db, nil
}

// isDamage reports whether err says something about the bytes in the
// directory, not about the machine or who may do what.
func isDamage(err error) bool {
	for _, e := range []error{
		fs.ErrPermission, syscall.EAGAIN, syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EMFILE, syscall.ENFILE,
		syscall.ENOMEM, syscall.ENOLCK, syscall.EINTR,
	} {
		if errors.Is(err, e) {
			return false
		}
	}
	return true
}

// damagedBlocks returns the names of the blocks in dir that cannot be opened;
// those of open are known to be good.
func damagedBlocks(dir string, open []*tsdb.Block) ([]string, error) {
	names, err := contents(dir)
	if err != nil {
		return nil, err
	}
	var damaged []string
	for _, name := range names {
		if !isBlock(name) || slices.ContainsFunc(open, func(b *tsdb.Block) bool { return b.Meta().ULID.String() == name }) {
			continue
		}
		b, err := tsdb.OpenBlock(nil, filepath.Join(dir, name), nil, nil)
		if err != nil {
			damaged = append(damaged, name)
			continue
		}
		if err := b.Close(); err != nil {
			return nil, err
		}
	}
	return damaged, nil
}

// isBlock reports whether name is that of a block: a ULID, 26 characters of
// Crockford's base 32.
func isBlock(name string) bool {
	return len(name) == 26 && strings.Trim(name, "0123456789ABCDEFGHJKMNPQRSTVWXYZ") == ""
}

// contents returns what is in dir, without what was set aside before.
func contents(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), damagedPrefix) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// setAside moves names out of the TSDB's sight and says so. Only the newest
// such directory stays, or damage that comes back would fill the disk.
func setAside(dir string, names []string, why string, log *journal) error {
	older, err := filepath.Glob(filepath.Join(dir, damagedPrefix+"*"))
	if err != nil {
		return err
	}
	aside, err := os.MkdirTemp(dir, damagedPrefix+time.Now().UTC().Format("20060102T150405Z-"))
	if err != nil {
		return fmt.Errorf("setting aside what is damaged: %w", err)
	}
	for _, name := range names {
		if err := os.Rename(filepath.Join(dir, name), filepath.Join(aside, name)); err != nil {
			return fmt.Errorf("setting aside what is damaged: %w", err)
		}
	}
	for _, o := range older {
		if err := os.RemoveAll(o); err != nil {
			return fmt.Errorf("removing what was set aside before: %w", err)
		}
	}
	log.say(aside, fmt.Sprintf("metrics store: %s set aside in %s, the store goes on without: %s", strings.Join(names, ", "), aside, why))
	return nil
}
