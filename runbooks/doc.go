// Package runbooks owns the Markdown runbooks of the console: their text, the
// format they are written in, and which of them fit what is going on.
//
// It never changes anything, never asks anybody and never draws: a runbook is
// text with marks, a Situation goes in and proposals come out.
//
// # Format
//
// A runbook is a file *.md in UTF-8: front matter between two lines of "---",
// then five sections. Whatever is not described here is an error, with the
// file and the line.
//
//	---
//	id: provider-5xx             # unique, a-z 0-9 -
//	title: provider returns 5xx  # short: it stands in one row with others
//	contact: owner               # whom to call; owner is who may call traffic fully back
//	reviewed: 2026-11-30         # when somebody last read it against the program
//	when:                        # it is proposed if any of these holds
//	  - breaker: {reason: [consecutive, failure_rate], class: [server_error]}
//	  - credential: [quota_exhausted]
//	  - ratio: over limit
//	  - health: [degraded]
//	  - share: below 100
//	---
//
// The conditions:
//
//   - breaker: a bucket is not closed. reason lists what it may have opened for,
//     class what its attempts may have failed with most; where both are given,
//     both must hold.
//   - credential: the keys of an upstream cool, for one of these classes.
//   - ratio: the fallback ratio is over its configured limit.
//   - health: the health of an upstream is one of these words.
//   - share: an upstream has less than all of its own traffic.
//
// The sections, each under "## " with exactly this title, in this order, none
// empty: What it looks like here, What to check first, What to do, How to go
// back, When to escalate.
//
// A section holds paragraphs, bullets ("- ") and steps ("1. "). Steps are
// numbered through the whole file, so that a step can be named. What belongs to
// a bullet or a step is indented below it. The last indented lines of a step
// may be
//
//	query: breakers        # a canned query, run in place
//	live: breakers, share  # live values shown beside the step; see LiveNames
//
// Inline Markdown is emphasis, strong and code. A key of the console is written
// as code, by the name the key table has for it, and works on the runbook's own
// screen unless a screen is named behind it: `b` opens the table, `>` on overview
// opens the dialog, `y` in the dialog sends. Code that is no key is a word of
// the screen or a command. Code blocks, tables, HTML, links and other headings
// are not part of the format: they do not wrap, or vanish.
package runbooks
