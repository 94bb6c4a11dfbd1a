package wire

// Run is a part of a text that is ASCII without quotes, escapes, control characters and line ends, as most of a large message is: an
// image in base64, or a file. It is found while the text is read, where line ends are searched anyway, so that the bytes are read once
// only. The zero value is no run.
type Run struct{ From, To int }

const (
	// runLeast is the least size in bytes of new text that is searched, and of a new run.
	runLeast = 8 << 10
	// runAhead is the distance from the beginning of new text at which a run is searched: members precede it.
	runAhead = 1 << 10
	// runSlack is how many of the last bytes plain may not have examined.
	runSlack = 32
)

// Grow examines the part of a text that has arrived since the last call: text is all of it, and its first old bytes are known. A run that
// reaches the end of those is continued. Otherwise a longer run is searched in the new part.
func (r *Run) Grow(text []byte, old int) {
	if r.To > r.From && old-r.To < runSlack {
		r.To = plain(text, r.To)
		return
	}
	if len(text)-old < max(runLeast, r.To-r.From) {
		return
	}
	for _, from := range [...]int{old + runAhead, len(text) - runAhead} {
		to := plain(text, from)
		if to-from >= runLeast || len(text)-to < runSlack {
			*r = Run{from, to}
			return
		}
	}
}

// behind returns the run for a text without its first cut bytes.
func (r Run) behind(cut int) Run { return Run{r.From - cut, r.To - cut} }

// has reports whether the byte at i is in the run.
func (r Run) has(i int) bool { return i >= r.From && i < r.To }
