package api

// Stated reports whether the gateway said u's traffic state. An answer without it
// reads as share 0 of revision 0 by nobody, never set: that is unknown, not 0%.
func (u *Upstream) Stated() bool {
	return u.Share != 0 || u.Revision != 0 || u.StateBy != "" || !u.Since.IsZero()
}
