// Package config owns failback.yaml: the one declaration of every key (the
// struct tags of Config and of the types below it) from which decoding,
// defaults, the origin of each value, unknown-key suggestions, Show, Settings
// and Reference all follow. Load reads, defaults and validates in one go, for
// the start, for check and for a reload alike, and reports every mistake it
// finds with its position; Lint reports what is allowed but probably not meant.
//
// It never changes a running gateway, never starts a goroutine that outlives a
// call, never guesses at a mistake, and never puts the value of a secret into
// an error, a listing or a hash.
package config
