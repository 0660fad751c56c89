package jobs

import "time"

// Bounds of the silence that is allowed. A job that stops is to be seen in
// console and metrics within 5 minutes: longest leaves time for a scrape.
const (
	shortest = time.Minute
	longest  = 4*time.Minute + 30*time.Second
)

// late reports whether a job was silent for too long.
func late(silence, every time.Duration) bool { return silence > allowed(every) }

// allowed is how long a job may go without a success: three turns, but no
// less than a minute, which a busy machine may take, and no more than makes it
// visible within 5 minutes. A job that runs more rarely than that is late a
// tenth of its pace after it was due, at most 5 minutes.
func allowed(every time.Duration) time.Duration {
	turns := min(max(3*every, shortest), longest)
	overdue := every + min(max(every/10, shortest), 5*time.Minute)
	return max(turns, overdue)
}
