package jobs

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"failback/internal/bubble"
)

func one(t *testing.T, b *Board, name string) Status {
	t.Helper()
	for _, s := range b.Snapshot() {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("there is no job %s", name)
	return Status{}
}

func TestAllowed(t *testing.T) {
	for every, want := range map[time.Duration]time.Duration{
		time.Second:      61 * time.Second,
		15 * time.Second: 75 * time.Second,
		30 * time.Second: 90 * time.Second,
		90 * time.Second: 4*time.Minute + 30*time.Second,
		2 * time.Minute:  4*time.Minute + 30*time.Second,
		5 * time.Minute:  6 * time.Minute,
		time.Hour:        65 * time.Minute,
		24 * time.Hour:   24*time.Hour + 5*time.Minute,
	} {
		if got := allowed(every); got != want {
			t.Errorf("%s: %s, want %s", every, got, want)
		}
	}
	// A job that stops right after a success is seen within 5 minutes, where its
	// own pace allows that.
	for every := time.Second; every < 4*time.Minute; every += time.Second {
		if got := allowed(every); got >= 5*time.Minute || got <= every {
			t.Errorf("%s: %s", every, got)
		}
	}
}

func TestJobIsLateWithoutSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Board
		b.Register("watch", 30*time.Second)
		if s := one(t, &b, "watch"); s.Late || !s.LastSuccess.IsZero() || s.Every != 30*time.Second {
			t.Errorf("just registered: %+v", s)
		}
		bubble.Sleep(91 * time.Second)
		if s := one(t, &b, "watch"); !s.Late || !s.LastSuccess.IsZero() {
			t.Errorf("it never ran: %+v", s)
		}
		b.Ran("watch", nil)
		at := time.Now()
		if s := one(t, &b, "watch"); s.Late || !s.LastSuccess.Equal(at) {
			t.Errorf("it ran: %+v", s)
		}
		for range 3 {
			bubble.Sleep(30 * time.Second)
			b.Ran("watch", errors.New("disk full"))
		}
		if s := one(t, &b, "watch"); s.Late || s.Error != "disk full" {
			t.Errorf("it fails, and is not late yet: %+v", s)
		}
		bubble.Sleep(time.Second)
		if s := one(t, &b, "watch"); !s.Late || !s.LastSuccess.Equal(at) {
			t.Errorf("it runs and fails: %+v", s)
		}
		b.Ran("watch", nil)
		if s := one(t, &b, "watch"); s.Late || s.Error != "" {
			t.Errorf("it succeeded: %+v", s)
		}
	})
}

func TestRegisterAgainAndRemove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Board
		b.Register("b", time.Minute)
		b.Register("a", time.Second)
		b.Ran("a", nil)
		b.Register("a", time.Hour)
		if s := b.Snapshot(); len(s) != 2 || s[0].Name != "a" || s[0].Every != time.Hour || s[0].LastSuccess.IsZero() {
			t.Errorf("%+v", s)
		}
		bubble.Sleep(time.Hour)
		if late := b.Late(); len(late) != 1 || late[0] != "b" {
			t.Errorf("late: %v", late)
		}
		b.Remove("a")
		b.Ran("a", nil) // it was under way
		if s := b.Snapshot(); len(s) != 1 {
			t.Errorf("a job that was removed is back: %+v", s)
		}
		b.Register("a", time.Second)
		if s := one(t, &b, "a"); !s.LastSuccess.IsZero() {
			t.Errorf("%+v", s)
		}
	})
}
