package main

import (
	"testing"

	"github.com/spf13/pflag"
)

// --why is the same as --reason, for every command that changes traffic.
func TestWhyIsReason(t *testing.T) {
	for _, name := range []string{"step", "state", "breaker", "passthrough"} {
		c, _ := find([]string{name})
		in := &invocation{flags: pflag.NewFlagSet(name, pflag.ContinueOnError)}
		c.flags(in)
		if err := in.flags.Parse([]string{"--why", "probe ok"}); err != nil || in.reason != "probe ok" {
			t.Errorf("%s: %q, %v", name, in.reason, err)
		}
	}
}
