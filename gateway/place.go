package gateway

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// placeFile is where in the data directory its place is kept.
const placeFile = "gateway.id"

// place is a data directory among those of a store: what tells gateways apart
// that have one name, and says of one that starts again that it is the same.
type place struct {
	ID    string    `json:"id"`
	Since time.Time `json:"since"` // it was made, by this host's clock
}

// placeOf returns the place of dir, and makes it where there is none or none
// that can be read. With an error it is a place all the same, until the process
// ends.
func placeOf(dir string) (place, error) {
	path := filepath.Join(dir, placeFile)
	var p place
	data, err := os.ReadFile(path)
	if err == nil && json.Unmarshal(data, &p) == nil && p.ID != "" && !p.Since.IsZero() {
		return p, nil
	}
	p = place{ID: rand.Text(), Since: time.Now().UTC()}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return p, fmt.Errorf("%s: %w", path, err)
	}
	if data, err = json.Marshal(p); err == nil {
		// Whole or not at all; that a crash of the host may take it is no harm: a
		// new place takes that of a silent gateway of its name.
		unfinished := path + ".new"
		if err = os.WriteFile(unfinished, append(data, '\n'), 0o600); err == nil {
			err = os.Rename(unfinished, path)
		}
	}
	if err != nil {
		err = fmt.Errorf("%s: %w: after a restart this gateway will look like another one", path, err)
	}
	return p, err
}
