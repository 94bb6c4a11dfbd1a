package servers

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/goccy/go-json"

	"dragoman/adapters/aggregator"
	"dragoman/internal/config/value"
	"dragoman/proxy/wire"
)

// JSON writes what the API has answered, indented, with each character visible.
func JSON(w io.Writer, raw []byte) error {
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, string(wire.AppendVisible(nil, b.Bytes())))
	return err
}

// The colours of a table. Their codes are equally long, so that tabwriter, which counts them, aligns columns of them.
const (
	usual  = "39"
	green  = "32"
	red    = "31"
	yellow = "33"
)

// paint returns a text in a colour, or as it is.
func paint(text, colour string, colourful bool) string {
	if !colourful {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

func statusColour(status string) string {
	switch status {
	case "CONNECTED":
		return green
	case "ERROR":
		return red
	case "DEGRADED", "CONNECTING":
		return yellow
	}
	return usual
}

// aligned writes lines of cells, which fill writes with tabs between them, as columns without blanks at the ends of lines.
func aligned(w io.Writer, fill func(w io.Writer)) error {
	var b bytes.Buffer
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fill(t)
	if err := t.Flush(); err != nil {
		return err
	}
	var trimmed strings.Builder
	for line := range strings.Lines(b.String()) {
		trimmed.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	_, err := io.WriteString(w, trimmed.String())
	return err
}

// List writes a line for each server: name, status, number of tools, transport, source, and what somebody should look at: why it is not
// connected, or how many definitions are held.
func List(w io.Writer, all []aggregator.Server, colourful bool) error {
	return aligned(w, func(t io.Writer) {
		fmt.Fprintf(t, "NAME\t%s\tTOOLS\tTRANSPORT\tSOURCE\t\n", paint("STATUS", usual, colourful))
		for i := range all {
			s := &all[i]
			fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t%s\n", wire.Shown(s.Name), paint(wire.Shown(s.Status), statusColour(s.Status), colourful), s.ToolCount,
				wire.Shown(s.Transport), wire.Shown(s.Source), wire.ShownText(cmp.Or(why(s), holding(s))))
		}
	})
}

// why returns why a server is not connected, if it should be.
func why(s *aggregator.Server) string {
	if s.Status == "CONNECTED" {
		return ""
	}
	return cmp.Or(s.Error, s.LastError)
}

// holding says what is held of a server; empty: nothing.
func holding(s *aggregator.Server) string {
	switch s.Held {
	case 0:
		return ""
	case 1:
		return "1 definition is held; `dragoman approve " + s.Name + "` shows it"
	}
	return Definitions(s.Held) + " are held; `dragoman approve " + s.Name + "` shows them"
}

// Show writes a server, a line for each fact.
func Show(w io.Writer, s *aggregator.Server, colourful bool) error {
	facts := [][2]string{{"name", wire.Shown(s.Name)}, {"id", wire.Shown(s.ID)}, {"source", wire.Shown(s.Source)}, {"description", wire.ShownText(s.Description)},
		{"transport", wire.Shown(s.Transport)}}
	for _, fact := range connection(s.Connection) {
		facts = append(facts, [2]string{fact[0], wire.ShownText(fact[1])})
	}
	facts = append(facts, [][2]string{{"health check", wire.Shown(s.HealthURL)}, {"status", paint(wire.Shown(s.Status), statusColour(s.Status), colourful)},
		{"why", wire.ShownText(why(s))}, {"tools", strconv.Itoa(s.ToolCount)}, {"disabled", wire.ShownText(strings.Join(s.Disabled, ", "))},
		{"note", wire.ShownText(holding(s))},
		{"registered", instant(s.Registered)}, {"connected", instant(s.Connected)}}...)
	if s.CheckedAt != nil {
		facts = append(facts, [2]string{"checked", fmt.Sprintf("%s, in %d ms", instant(s.CheckedAt), s.Took)})
	}
	if s.Failures > 0 {
		facts = append(facts, [2]string{"failures", fmt.Sprintf("%d in a row", s.Failures)})
	}
	for i := range s.Instances {
		one := &s.Instances[i]
		text := paint(wire.Shown(one.Status), statusColour(one.Status), colourful)
		if since := instant(one.Since); since != "" {
			text += " since " + since
		}
		if one.LastError != "" && one.Status != "CONNECTED" {
			text += ": " + wire.ShownText(one.LastError)
		}
		facts = append(facts, [2]string{"at " + wire.Shown(one.Name), text})
	}
	return aligned(w, func(t io.Writer) {
		for _, fact := range facts {
			if fact[1] != "" {
				fmt.Fprintf(t, "%s\t%s\n", fact[0], fact[1])
			}
		}
	})
}

// Tested writes the result of a test, a line for each fact. The error says why a connection is of no use.
func Tested(w io.Writer, t *aggregator.Tested) error {
	var facts [][2]string
	if t.Server != nil {
		facts = append(facts, [2]string{"server", wire.Shown(t.Server.Name + " " + t.Server.Version)})
	}
	if t.Eras != "" {
		facts = append(facts, [][2]string{{"speaks", wire.Shown(t.Eras)}, {"revision", wire.Shown(t.Revision)},
			{"offers", fmt.Sprintf("%s, %d prompts, %d resources", Counted(t.Tools), t.Prompts, t.Resources)}}...)
	}
	facts = append(facts, [2]string{"took", fmt.Sprintf("%d ms", t.Took)})
	for i := range t.Warnings {
		f := &t.Warnings[i]
		facts = append(facts, [2]string{"hidden text", wire.ShownText(fmt.Sprintf("%s %s: %s has %s", strings.TrimSuffix(f.List, "s"), f.Name, f.Place, f.What))})
	}
	err := aligned(w, func(out io.Writer) {
		for _, fact := range facts {
			fmt.Fprintf(out, "%s\t%s\n", fact[0], fact[1])
		}
	})
	if err == nil && !t.OK {
		err = errors.New(wire.ShownText(cmp.Or(t.Error, "the server cannot be used")))
	}
	return err
}

func instant(at *time.Time) string {
	if at == nil {
		return ""
	}
	return at.UTC().Format(time.RFC3339)
}

// commandLine returns a command as a shell would take it.
func commandLine(words []string) string {
	words = slices.Clone(words)
	for i, word := range words {
		if word == "" || strings.ContainsAny(word, " \t\n\"'") {
			words[i] = value.Quote(word)
		}
	}
	return strings.Join(words, " ")
}

// connection returns the facts of a connection, in the words of the flags.
func connection(fields map[string]any) (facts [][2]string) {
	for _, key := range []string{"base_url", "url"} {
		if text, ok := fields[key].(string); ok {
			facts = append(facts, [2]string{"url", text})
		}
	}
	if methods, ok := fields["methods"].([]any); ok {
		for _, one := range methods {
			facts = append(facts, [2]string{"grpc-method", fmt.Sprint(one)})
		}
	}
	if program, ok := fields["command"].(string); ok {
		words := []string{program}
		args, _ := fields["args"].([]any)
		for _, arg := range args {
			words = append(words, fmt.Sprint(arg))
		}
		facts = append(facts, [2]string{"command", commandLine(words)})
	}
	for _, kind := range []struct{ key, name, between string }{{"headers", "header", ": "}, {"env", "env", "="}} {
		all, _ := fields[kind.key].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(all)) {
			facts = append(facts, [2]string{kind.name, name + kind.between + fmt.Sprint(all[name])})
		}
	}
	return facts
}

// Tools writes a line for each tool: the name that clients call it by, its server, whether it is enabled, its categories if any tool
// has some, and the first line of its description.
func Tools(w io.Writer, all []aggregator.Tool, colourful bool) error {
	sorted := slices.ContainsFunc(all, func(t aggregator.Tool) bool { return len(t.Skills) > 0 })
	return aligned(w, func(t io.Writer) {
		categories := ""
		if sorted {
			categories = "CATEGORIES\t"
		}
		fmt.Fprintf(t, "TOOL\tSERVER\t%s\t%sDESCRIPTION\n", paint("ENABLED", usual, colourful), categories)
		for i := range all {
			tool := &all[i]
			enabled, colour := "yes", usual
			switch {
			case !tool.Enabled:
				enabled, colour = "no", yellow
			case tool.Held:
				enabled, colour = "held", yellow
			}
			first, _, _ := strings.Cut(strings.TrimSpace(tool.Description), "\n")
			if sorted {
				categories = cmp.Or(strings.Join(tool.Skills, ", "), "-") + "\t"
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%s%s\n", wire.Shown(cmp.Or(tool.Name, tool.Original)), wire.Shown(tool.Server), paint(enabled, colour, colourful), categories, wire.Shown(first))
		}
	})
}

// Counted returns a number of tools in words.
func Counted(tools int) string {
	switch tools {
	case 0:
		return "no tools"
	case 1:
		return "1 tool"
	}
	return strconv.Itoa(tools) + " tools"
}
