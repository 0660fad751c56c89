package api

// Raises reports whether c was meant as a raise by whoever gave it, whatever it
// would come to now.
func (c Command) Raises() bool {
	return c.From != nil && c.Share != nil && *c.Share > *c.From
}
