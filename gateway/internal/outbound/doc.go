// Package outbound owns how the gateway makes calls of its own: to a webhook, a
// ping, a dependency. It follows no redirect, repeats nothing, and says of a
// failure what people can act on: never a URL, a host, a header or what the
// other side wrote, since any of them may hold a secret or a trap.
package outbound
