package servers

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/goccy/go-json"

	"dragoman/adapters/aggregator"
	"dragoman/adapters/definitions"
	"dragoman/internal/config/value"
	"dragoman/proxy/wire"
)

// Held returns the definitions of a server that are held.
func (c *Client) Held(ctx context.Context, name string) (a Answer[[]definitions.Held], err error) {
	path, err := pathOf(name)
	if err != nil {
		return a, err
	}
	return pages[definitions.Held](ctx, c, path+"/definitions", map[string][]string{})
}

// approveAtOnce is how many definitions one request approves.
const approveAtOnce = 500

// Approve approves definitions of a server as they were shown.
func (c *Client) Approve(ctx context.Context, name string, shown []definitions.Held) (done Answer[aggregator.Approved], err error) {
	path, err := pathOf(name)
	if err != nil {
		return done, err
	}
	done.Is.Definitions = []definitions.Approval{}
	for part := range slices.Chunk(shown, approveAtOnce) {
		var what []definitions.Approval
		for _, h := range part {
			what = append(what, definitions.Approval{Kind: h.Kind, Key: h.Key, Hash: h.Hash})
		}
		resp, err := c.ask(ctx, "POST", path+"/approve", map[string]any{"definitions": what})
		if err != nil {
			return done, err
		}
		some, err := decoded[aggregator.Approved](resp.Body())
		if err != nil {
			return done, err
		}
		done.Is.Definitions = append(done.Is.Definitions, some.Is.Definitions...)
	}
	done.Raw, err = json.Marshal(done.Is)
	return done, err
}

// Chosen returns those of the held definitions of a server that have one of the given keys, which may begin with the server's name, and of the
// instructions that word; all if there are no keys.
func Chosen(server string, held []definitions.Held, keys []string) (chosen []definitions.Held, err error) {
	if len(keys) == 0 {
		return held, nil
	}
	var known []string
	for i := range held {
		known = append(known, keyOf(&held[i]))
	}
	for _, typed := range keys {
		own := strings.TrimPrefix(typed, server+".")
		found := false
		for i := range held {
			if key := keyOf(&held[i]); key == typed || key == own {
				chosen, found = append(chosen, held[i]), true
			}
		}
		if found {
			continue
		}
		fix := "`dragoman approve " + wire.Shown(server) + "` shows what is held"
		if near := value.Nearest(own, known); near != "" {
			fix = fmt.Sprintf("did you mean %q?", wire.Shown(near))
		}
		return nil, fmt.Errorf("%s", value.WithFix(fmt.Sprintf("%s has no definition %q that is held", wire.Shown(server), value.Shorten(typed)), fix))
	}
	return chosen, nil
}

func keyOf(h *definitions.Held) string {
	if h.Kind == definitions.Instructions {
		return definitions.Instructions
	}
	return h.Key
}

// Holding writes a line for each definition that is held, by server.
func Holding(w io.Writer, of []string, held [][]definitions.Held, colourful bool) error {
	return aligned(w, func(t io.Writer) {
		fmt.Fprintf(t, "SERVER\tKIND\t%s\tKEY\n", paint("STATE", usual, colourful))
		for i, server := range of {
			for j := range held[i] {
				h := &held[i][j]
				fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", wire.Shown(server), wire.Shown(h.Kind), paint(wire.Shown(h.State), yellow, colourful), wire.Shown(keyOf(h)))
			}
		}
	})
}

// Differences writes what has changed in definitions, or what new ones say.
func Differences(w io.Writer, held []definitions.Held, colourful bool) error {
	var b strings.Builder
	for i := range held {
		h := &held[i]
		what := strings.TrimSuffix(h.Kind, "s") + " " + h.Key
		if h.Kind == definitions.Instructions {
			what = h.Kind
		}
		state := "is new"
		if h.State == definitions.StateChanged {
			state = "has changed"
		}
		fmt.Fprintf(&b, "%s %s\n", wire.Shown(what), paint(state, yellow, colourful))
		for _, f := range h.Fields {
			fmt.Fprintf(&b, "  %s\n", wire.Shown(f.Name))
			side(&b, "-", red, f.Before, colourful)
			side(&b, "+", green, f.After, colourful)
		}
		for _, found := range h.Hidden {
			fmt.Fprintf(&b, "  %s: %s, at character %d of %s\n", paint("text that people do not see", red, colourful), wire.Shown(found.What), found.At, wire.Shown(found.Place))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// side writes one side of a difference, a line for each of the text.
func side(b *strings.Builder, sign, colour, text string, colourful bool) {
	if text == "" {
		return
	}
	for line := range strings.Lines(wire.Visible(text)) {
		b.WriteString("  " + paint(sign+" "+strings.TrimSuffix(line, "\n"), colour, colourful) + "\n")
	}
}

// Definitions returns a number of definitions in words.
func Definitions(many int) string {
	if many == 1 {
		return "1 definition"
	}
	return fmt.Sprintf("%d definitions", many)
}
