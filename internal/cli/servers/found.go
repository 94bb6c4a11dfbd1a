package servers

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"dragoman/adapters/aggregator"
	"dragoman/adapters/merge/view"
	"dragoman/proxy/wire"
)

// Found writes a line for each tool that was found: its name for clients, the status of its server, what matches, and the first line of its
// description.
func Found(w io.Writer, all []aggregator.FoundTool, colourful bool) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(w, "no tool is near this")
		return err
	}
	return aligned(w, func(t io.Writer) {
		fmt.Fprintf(t, "TOOL\t%s\tSCORE\tMATCHES\tDESCRIPTION\n", paint("SERVER", usual, colourful))
		for i := range all {
			f := &all[i]
			first, _, _ := strings.Cut(f.Description, "\n")
			fmt.Fprintf(t, "%s\t%s\t%.2f\t%s\t%s\n", wire.Shown(cmp.Or(f.Name, f.Original+" (hidden)")), paint(wire.Shown(f.Source.Status), statusColour(f.Source.Status), colourful), f.Score,
				wire.ShownText(strings.Join(f.Why, ", ")), wire.ShownText(first))
		}
	})
}

// Contexts writes how much of a model's context the tools of each endpoint take, and what was spared since the start.
func Contexts(w io.Writer, c *aggregator.Contexts) error {
	err := aligned(w, func(t io.Writer) {
		fmt.Fprintln(t, "PATH\tCLIENTS\tMODE\tTOOLS\tLISTED\tTOKENS OF ALL\tSPARED")
		for i := range c.Contexts {
			x := &c.Contexts[i]
			clients := strings.Join(x.Clients, ", ")
			if len(x.Keys) > 0 {
				clients = strings.TrimPrefix(clients+", keys "+strings.Join(x.Keys, ", "), ", ")
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t~%d\t~%d\n", wire.Shown(x.Path), wire.ShownText(cmp.Or(clients, "all others")), x.Mode, x.Tools, x.ListedTools, view.Tokens(x.Bytes), x.Tokens)
		}
	})
	if err == nil {
		_, err = fmt.Fprintf(w, "since the start: %d lists of clients of search and auto, %d bytes listed, %d spared; %d searches\n", c.Lists, c.Listed, c.Spared, c.Searches)
	}
	return err
}
