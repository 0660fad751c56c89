// Package dependency owns the checks of what several upstreams depend on: a
// name, a port, a certificate, a URL, a file. It says of each whether it is
// there, since when and why not; it never judges an upstream by that, since a
// dependency that fails takes nobody down who still succeeds.
//
// The same runner reads the certificates of the upstreams themselves, once a
// day over a handshake of its own (see CertificateOf). Connections that carry
// requests would tell as much, but only where there is traffic, and an upstream
// that is left alone is just the one whose certificate ends unseen. What a
// check of its own cannot see: a certificate that only some of the provider's
// servers show, and one behind a proxy of the environment, which checks do not
// use for plain connections.
package dependency
