package setup

import (
	"fmt"
	"strings"

	"dragoman/proxy/wire"
)

// context is how many equal lines a diff shows before and behind a change.
const context = 3

// diff returns a unified diff with one hunk, from the first line that differs to the last; "" if nothing does.
func diff(name, before, after string, colour bool) string {
	a, b := lines(before), lines(after)
	begin := 0
	for begin < len(a) && begin < len(b) && a[begin] == b[begin] {
		begin++
	}
	end := 0
	for end < len(a)-begin && end < len(b)-begin && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	if begin == len(a) && begin == len(b) {
		return ""
	}
	from, to := max(0, begin-context), min(context, end)
	var out strings.Builder
	line := func(mark, text, colours string) {
		text = wire.Visible(strings.TrimRight(text, "\r\n"))
		if colour && colours != "" {
			text, mark = text+"\x1b[0m", colours+mark
		}
		out.WriteString(mark + text + "\n")
	}
	line("", "--- "+name, "")
	line("", "+++ "+name, "")
	line("", fmt.Sprintf("@@ -%s +%s @@", span(from, len(a)-end+to-from), span(from, len(b)-end+to-from)), "\x1b[36m")
	for _, text := range a[from:begin] {
		line(" ", text, "")
	}
	for _, text := range a[begin : len(a)-end] {
		line("-", text, "\x1b[31m")
	}
	for _, text := range b[begin : len(b)-end] {
		line("+", text, "\x1b[32m")
	}
	for _, text := range a[len(a)-end : len(a)-end+to] {
		line(" ", text, "")
	}
	return out.String()
}

// span returns a place in a file as diffs write it.
func span(from, count int) string {
	if count == 0 {
		return fmt.Sprintf("%d,0", from)
	}
	return fmt.Sprintf("%d,%d", from+1, count)
}

func lines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n")
}
