package traffic

import (
	"context"
	"maps"
	"sync"
)

// Storage keeps the records of a table, by the name of the upstream. A table
// calls one method at a time.
type Storage interface {
	// Load returns all records. One that cannot be read is an error that names
	// it and says what to do, never left out: an upstream without a record gets
	// its full share.
	Load(ctx context.Context) (map[string]Record, error)
	// Save puts records in the place of those of the same names; the others
	// stay. Each is kept whole or not at all. After an error the table saves
	// again, with the records as they are then.
	Save(ctx context.Context, records map[string]Record) error
}

// Memory keeps records as long as the process. Its zero value is empty. It may
// be used from any goroutine.
type Memory struct {
	mu      sync.Mutex
	records map[string]Record
}

var _ Storage = (*Memory)(nil)

// Load returns what was saved.
func (m *Memory) Load(context.Context) (map[string]Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.records), nil
}

// Save keeps records.
func (m *Memory) Save(_ context.Context, records map[string]Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.records == nil {
		m.records = map[string]Record{}
	}
	for name, r := range records {
		m.records[name] = r.clone()
	}
	return nil
}
