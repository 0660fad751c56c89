package main

import (
	"os"
	"strings"
	"testing"

	"failback/gateway/demo"
)

// demo --help and README.md name every script that there is.
func TestDemoScriptsAreNamed(t *testing.T) {
	usage, errs, code := runLine("demo", "--help")
	if code != exitDone || errs != "" {
		t.Fatalf("exit %d: %s", code, errs)
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range demo.Scripts {
		if !strings.Contains(usage, string(s)+" (") {
			t.Errorf("demo --help does not say what %s is:\n%s", s, usage)
		}
		if !strings.Contains(string(readme), "--script "+string(s)) {
			t.Errorf("README.md does not name --script %s", s)
		}
	}
}
