package main

import (
	"cmp"
	"maps"
	"slices"

	"failback/sources"
	"failback/ui/text"
)

// errorLabel is under which label a Loki says that it could not do to a line
// what a query asked for.
const errorLabel = "__error__"

// couldNot says what was not possible, by what a Loki names it.
var couldNot = map[string]string{
	"JSONParserErr":       "be read as json",
	"LogfmtParserErr":     "be read as logfmt",
	"LabelFilterErr":      "be compared as the label filter wants it",
	"TemplateFormatErr":   "be written by line_format or label_format",
	"SampleExtractionErr": "be read as a number",
}

// lineErrors says of how many lines of an answer something was not possible,
// which nothing in their text shows; the most frequent first.
func lineErrors(rows []sources.LogRow) []string {
	counts := map[string]int{}
	for _, r := range rows {
		if kind := r.Labels[errorLabel]; kind != "" {
			counts[kind]++
		}
	}
	kinds := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	var notes []string
	for i, kind := range kinds {
		lines := " lines"
		if counts[kind] == 1 {
			lines = " line"
		}
		what, ok := couldNot[kind]
		if !ok {
			what = "be worked on"
		}
		n := text.Count(uint64(counts[kind])) + lines + " could not " + what + ": " + text.Visible(kind)
		if i == len(kinds)-1 {
			n += `; --json shows each with its __error_details__, and | __error__="" in the query leaves them out`
		}
		notes = append(notes, n)
	}
	return notes
}
