package store

import (
	"encoding/json"
	"errors"
	"fmt"
)

// envelope is a value as it is stored.
type envelope struct {
	Version int             `json:"v"`
	Data    json.RawMessage `json:"d"`
}

// encodeValue returns v in the envelope of version.
func encodeValue(version int, v any) ([]byte, error) {
	d, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("store: value: %w", err)
	}
	return json.Marshal(envelope{Version: version, Data: d})
}

// decodeValue reads data, written with a version up to known, into v. where
// and sequence name the value in errors.
func decodeValue(where string, sequence uint64, known int, data []byte, v any) error {
	var e envelope
	if err := json.Unmarshal(data, &e); err != nil {
		return &DecodeError{Where: where, Sequence: sequence, Err: fmt.Errorf("not readable: %w", err)}
	}
	switch {
	case e.Version > known:
		return &VersionError{Where: where, Sequence: sequence, Have: e.Version, Known: known}
	case e.Version < 1 || e.Data == nil:
		return &DecodeError{Where: where, Sequence: sequence, Err: errors.New("not readable: it was not written by this program")}
	}
	if err := json.Unmarshal(e.Data, v); err != nil {
		return &DecodeError{Where: where, Sequence: sequence, Err: fmt.Errorf("not readable: %w", err)}
	}
	return nil
}
