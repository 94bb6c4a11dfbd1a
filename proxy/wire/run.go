package wire

// Run is a part of a text in which a string neither ends nor has an escape, where all is ASCII and no line ends: what a large message
// mostly is, an image in base64 or a file of one line. It is found while the text is read, for the line's end has to be looked for then, and
// that need be done once only. The zero value is none.
type Run struct{ From, To int }

const (
	// runLeast is how much must have come at once to be looked at, and of how much a beginning must consist.
	runLeast = 8 << 10
	// runAhead is how far behind the beginning of what has come a run is looked for: members stand there.
	runAhead = 1 << 10
	// runSlack is how many of the last bytes of what it was given plain may have left alone.
	runSlack = 32
)

// Grow looks at what has come of a text since it was called last: text is all there is of it, and the first old bytes were there. A run
// that went on to the end of those goes on; where there is none another one is looked for, and a short one gives way.
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

// behind is the run in a text that begins so many bytes further on.
func (r Run) behind(cut int) Run { return Run{r.From - cut, r.To - cut} }

// has tells whether the byte at i is in it.
func (r Run) has(i int) bool { return i >= r.From && i < r.To }
