// Package e2e owns the tests of the real program: built once, started as a
// process, reached only from outside. It holds nothing that the program uses.
package e2e
