package value

import "strings"

// Nearest returns the candidate that a mistyped word most likely means, or "" if none is near. It ignores case, and the
// tables before a key: for idle_ttl it finds sessions.idle_ttl.
func Nearest(typed string, candidates []string) string {
	typed = strings.ToLower(typed)
	if len(typed) > 128 {
		return ""
	}
	best, least := "", max(1, len(typed)/3)+1
	for _, c := range candidates {
		d := distance(typed, strings.ToLower(c))
		if last := strings.LastIndexAny(c, ".:"); last >= 0 && !strings.Contains(typed, ".") && c[last+1:] == typed {
			d = min(d, 1)
		}
		if d < least {
			best, least = c, d
		}
	}
	return best
}

// distance returns the number of insertions, deletions, replacements and swaps of neighbours that turn a into b
// (optimal string alignment).
func distance(a, b string) int {
	before := make([]int, len(b)+1)
	row := make([]int, len(b)+1)
	next := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			next[j] = min(row[j]+1, next[j-1]+1, row[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, row, next = row, next, before
	}
	return row[len(b)]
}
