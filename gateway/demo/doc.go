// Package demo owns what `failback demo` shows the gateway with: fake
// upstreams that are real HTTP servers on loopback (Fake), mixed clients that
// call the gateway over real HTTP (Traffic), the script that makes one upstream
// fail and recover (Play), and the configuration that joins them (ConfigYAML).
//
// It never reaches past the wire: it knows the gateway only as a URL, calls
// nothing of its rooms, listens on loopback alone, and holds no real key.
package demo
