// Package budget owns the error budgets of objectives: how many requests of each
// model were good and bad for each objective, hour by hour, on whom and what the
// bad ones were spent, and what that means for the budget. It never reads a
// clock, never stores anything and never keeps a request waiting for more than a
// few additions.
//
// What this process counted is dated by the monotonic clock, and gets its hours
// of wall time from the wall clock whenever it is read or written down. So a wall
// clock that is stepped, forth or back, moves nothing out of a window or into it,
// and counts nothing twice. What earlier processes and other gateways counted has
// hours of wall time alone; a wall clock that is wrong hides it at most for as
// long as it is wrong.
package budget
