// Package embedded owns what a gateway keeps of itself where there is no
// Prometheus or no Loki: one store of numbers and one of log lines beside it,
// and their HTTP APIs.
//
// No request ever waits for it, and nothing that goes wrong in it ends the
// gateway: what cannot be kept is said where somebody asks for it.
package embedded
