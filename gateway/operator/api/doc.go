// Package api holds the types of the operator API and its client: what the
// console, the text commands and any script of an operator's may know of a
// gateway. It holds no server and nothing of the gateway's inside, so that a
// console can be built without either.
//
// Fields are added and never change meaning: consoles and gateways of
// neighbouring versions work together. A reader ignores what it does not know.
package api
