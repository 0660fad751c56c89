package sources

// RemoteKind is what went wrong with a Prometheus or Loki.
type RemoteKind uint8

// RemoteError is why a Prometheus or Loki gave no answer. Its text is short,
// names no URL's user info, and no secret.
type RemoteError struct {
	Kind    RemoteKind
	Source  string // Prometheus or Loki
	Status  int    // HTTP's, 0 if there was none
	Message string // the server's own; text from outside
	text    string
	err     error
}

func (e *RemoteError) Error() string { return e.text }

func (e *RemoteError) Unwrap() error { return e.err }
