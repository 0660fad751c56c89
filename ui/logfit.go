package ui

import (
	"strings"

	"failback/ui/text"
)

// fitDecision is a decision's line of the log in n columns, if it can be said in
// so many: what it came to and who answered stay, the way between goes first,
// then most of the id, of the answerer's name and of the task.
func fitDecision(s string, n int, mark string) string {
	if width(s) <= n {
		return s
	}
	i := strings.LastIndex(s, " > ")
	if i < 0 {
		i = strings.Index(s, ": ")
	}
	words := strings.SplitN(s[:max(i, 0)], " ", 4)
	if len(words) < 3 {
		return s
	}
	tail := strings.SplitN(strings.TrimPrefix(s[i:], " "), " ", 3)
	if len(tail) < 3 {
		return s
	}
	lead := " "
	if tail[0] == ":" {
		lead = ""
	}
	for _, keep := range []struct{ id, name, task int }{{far, far, far}, {12, far, far}, {12, 14, far}, {6, 14, far}, {6, 14, 10}, {6, 10, 6}} {
		head := cutMiddle(words[0], keep.id, "~") + " " + cutMiddle(words[1], keep.task, "~") + " " + strings.TrimSuffix(words[2], ":")
		end := lead + tail[0] + " " + cutMiddle(tail[1], keep.name, "~") + " " + tail[2]
		room := n - width(head) - width(end)
		if room < 0 {
			continue
		}
		if len(words) == 4 && room > 4 {
			head += " " + cutRight(words[3], room-1, mark)
		}
		return head + end
	}
	return text.CutWay(s, n, mark)
}
