// Package heap owns when the memory of a gateway is collected: later than the
// runtime does it by itself, while there is little of it. It never limits
// memory, and it knows nothing of what the memory is for.
package heap
