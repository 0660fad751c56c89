package outbound

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
)

// Call sends q and returns the status of the answer, whose body stays unread.
// The error may be shown to people.
func Call(c *http.Client, q *http.Request) (status int, err error) {
	q.Header.Set("User-Agent", "failback")
	a, err := c.Do(q)
	if err != nil {
		return 0, errors.New(Cause(err))
	}
	_ = a.Body.Close()
	return a.StatusCode, nil
}

// Confirmed sends q and returns nil if a 2xx answered, and for nothing else.
// The error may be shown to people.
func Confirmed(c *http.Client, q *http.Request) error {
	status, err := Call(c, q)
	switch {
	case err != nil:
		return err
	case status/100 == 2:
		return nil
	case status/100 == 3:
		return fmt.Errorf("it answers %d; redirects are not followed", status)
	}
	return fmt.Errorf("it answers %d", status)
}

// SameURL reports whether a and b ask for the same; nil is nothing.
func SameURL(a, b *url.URL) bool {
	return a == nil && b == nil || a != nil && b != nil && a.String() == b.String()
}
