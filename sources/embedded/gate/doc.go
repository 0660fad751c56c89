// Package gate owns how many questions are answered at the same time by what a
// gateway keeps beside it, whose process has something better to do.
//
// It never looks at a question.
package gate
