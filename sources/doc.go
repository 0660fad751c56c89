// Package sources owns what the console knows of the outside and how far it
// can be trusted: a Feed holds the newest answer of one question to one source
// with the times it was asked, answered and sampled, and Number and Clock turn
// those into one of six states and an age. It holds the only clients of
// Prometheus and Loki; what they answer is kept apart as value, idle, none,
// waiting and error.
//
// It never draws, and it leaves no goroutine behind: a question is a plain
// function that blocks until its answer, its time limit or the end of its
// context, to be called wherever blocking is allowed.
package sources
