package decision

import "strings"

// ByMachine reports whether an Event's By, or who set a share, is the machine:
// "auto", or "plan:NAME" for a plan that NAME approved. No operator may be known
// by such a name.
func ByMachine(by string) bool { return by == "auto" || strings.HasPrefix(by, "plan:") }
