package api

// UnreachableError says that a gateway does not answer, or that what answers
// is no gateway. Its text names the target and what to do.
type UnreachableError struct {
	Target string
	Hint   string
	Err    error
}

func (e *UnreachableError) Error() string {
	s := "no answer from " + e.Target + ": " + e.Err.Error()
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

func (e *UnreachableError) Unwrap() error { return e.Err }
