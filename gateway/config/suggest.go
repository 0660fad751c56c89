package config

import "strings"

// nearest returns the candidate that s most likely stands for, and whether it
// is near enough to be a slip of the pen. Candidates are not empty.
func nearest(s string, candidates []string) (string, bool) {
	best, least := "", 1<<30
	plain := normal(s)
	for _, c := range candidates {
		if d := distance(plain, normal(c)); d < least {
			best, least = c, d
		}
	}
	length := max(len([]rune(plain)), len(best))
	return best, least <= (length+2)/3 && least < length
}

// normal evens out what people write differently: case, dash and underscore.
func normal(s string) string {
	r := []rune(strings.ToLower(strings.ReplaceAll(s, "-", "_")))
	return string(r[:min(len(r), 64)])
}

// distance is the number of letters to insert, delete, change or swap with
// their neighbour to get from a to b.
func distance(a, b string) int {
	s, t := []rune(a), []rune(b)
	before, last, row := make([]int, len(t)+1), make([]int, len(t)+1), make([]int, len(t)+1)
	for j := range last {
		last[j] = j
	}
	for i := range s {
		row[0] = i + 1
		for j := range t {
			cost := 1
			if s[i] == t[j] {
				cost = 0
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+cost)
			if i > 0 && j > 0 && s[i] == t[j-1] && s[i-1] == t[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(t)]
}

// Nearest returns the candidate that s most likely stands for, and whether it
// is near enough to be a slip of the pen.
func Nearest(s string, candidates []string) (string, bool) { return nearest(s, candidates) }
