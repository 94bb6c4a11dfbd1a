// Written by dragoman generate, not for editing.

// Command main calls the tools of a server: each is a command, whose options are the tool's arguments. `go build` makes one file of it.
package main

import (
	"bufio"
	"bytes"
	"context"
	_ "embed" // tools.json
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// described is what tools.json says.
//
//go:embed tools.json
var described []byte

// program is what is generated for.
type program struct {
	Name          string `json:"name"`
	Title         string `json:"title"`
	URL           string `json:"url"`
	URLVariable   string `json:"url_variable"`
	TokenVariable string `json:"token_variable"`
	Tools         []tool `json:"tools"`
}

// tool is a tool, and the command that calls it.
type tool struct {
	Command string   `json:"command"`
	Name    string   `json:"name"`
	Summary string   `json:"summary"`
	About   string   `json:"about"`
	Options []option `json:"options"`
}

// option is an argument of a tool.
type option struct {
	Name     string   `json:"name"`   // without the hyphens
	Member   string   `json:"member"` // of the arguments
	Kind     string   `json:"kind"`   // string, integer, number, boolean, json, or list: and one of these
	Required bool     `json:"required,omitempty"`
	About    string   `json:"about,omitempty"`
	Values   []string `json:"values,omitempty"`
}

// Exit codes.
const (
	exitFailed = 1
	exitUsage  = 2
)

// usageError is a mistake of who typed the command.
type usageError string

func (e usageError) Error() string { return string(e) }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var p program
	err := json.Unmarshal(described, &p)
	if err == nil {
		err = p.run(ctx, os.Args[1:])
	}
	var wrong usageError
	switch {
	case errors.As(err, &wrong):
		fmt.Fprintf(os.Stderr, "%s: %s\n", p.Name, wrong)
		os.Exit(exitUsage)
	case err != nil:
		fmt.Fprintf(os.Stderr, "%s: %s\n", p.Name, err)
		os.Exit(exitFailed)
	}
}

const help = `Usage: %[1]s [--format text|json|envelope] COMMAND [OPTION...]
       %[1]s COMMAND - < ARGUMENTS.json
       %[1]s COMMAND --help

Calls the tools of %[2]s. Other commands:

  list [WORD...]                 the tools, or those in whose name or text the words are
  completion bash|zsh|fish       a script that completes commands and options
  help [COMMAND]

--format says what is printed of an answer: its texts (text), its result as JSON (json), or all of it (envelope).
Variables: %[3]s replaces the address %[4]s, %[5]s is a bearer token.
`

func (p *program) run(ctx context.Context, args []string) error {
	format := "text"
	for len(args) > 0 && strings.HasPrefix(args[0], "--format") {
		given, value, joined := strings.Cut(args[0], "=")
		if args = args[1:]; given != "--format" {
			return usageError("unknown option " + strconv.Quote(given))
		}
		if !joined && len(args) > 0 {
			value, args = args[0], args[1:]
		}
		if format = value; format != "text" && format != "json" && format != "envelope" {
			return usageError("--format is text, json or envelope")
		}
	}
	if len(args) == 0 {
		args = []string{"help"}
	}
	switch name, rest := args[0], args[1:]; name {
	case "help", "-h", "--help":
		if len(rest) == 0 {
			fmt.Printf(help, p.Name, p.Title, p.URLVariable, p.URL, p.TokenVariable)
			return nil
		}
		return p.call(ctx, rest[0], []string{"--help"}, format)
	case "list":
		p.list(rest)
		return nil
	case "completion":
		return p.completion(rest)
	case "__complete":
		p.complete(rest)
		return nil
	default:
		return p.call(ctx, name, rest, format)
	}
}

// list prints the tools that have all of the words.
func (p *program) list(words []string) {
	width := 0
	for _, t := range p.Tools {
		width = max(width, len(t.Command))
	}
	for _, t := range p.Tools {
		text := strings.ToLower(t.Command + " " + t.Name + " " + t.About)
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, strings.ToLower(w)) }) {
			fmt.Printf("%-*s  %s\n", min(width, 40), t.Command, t.Summary)
		}
	}
}

// find returns the tool of a command, which may also be given by the tool's name.
func (p *program) find(name string) (*tool, error) {
	for i := range p.Tools {
		if p.Tools[i].Command == name || p.Tools[i].Name == name {
			return &p.Tools[i], nil
		}
	}
	return nil, usageError(fmt.Sprintf("unknown command %q; fix: %s list tells the commands", name, p.Name))
}

// usage prints the help of a command.
func (p *program) usage(t *tool) {
	fmt.Printf("Usage: %s %s [OPTION...]\n       %s %s - < ARGUMENTS.json\n\n%s\n\nOptions:\n", p.Name, t.Command, p.Name, t.Command, t.About)
	words := map[string]string{"string": " TEXT", "integer": " N", "number": " N", "boolean": "", "json": " JSON"}
	for _, o := range t.Options {
		fmt.Printf("  --%s%s\n", o.Name, words[strings.TrimPrefix(o.Kind, "list:")])
		for line := range strings.Lines(o.About) {
			fmt.Printf("      %s\n", strings.TrimSpace(line))
		}
	}
	fmt.Println("  -h, --help")
}

// call calls a tool and prints the answer.
func (p *program) call(ctx context.Context, name string, args []string, format string) error {
	t, err := p.find(name)
	if err != nil {
		return err
	}
	if slices.Contains(args, "--help") || slices.Contains(args, "-h") {
		p.usage(t)
		return nil
	}
	arguments, err := t.arguments(args)
	if err != nil {
		return err
	}
	envelope, err := p.send(ctx, t, arguments)
	if err != nil {
		return err
	}
	return printed(envelope, format)
}

var (
	integer = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)
	number  = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)
)

// arguments returns the arguments that the options give, as JSON.
func (t *tool) arguments(args []string) (json.RawMessage, error) {
	if slices.Equal(args, []string{"-"}) {
		raw, err := io.ReadAll(os.Stdin)
		if err == nil && !json.Valid(raw) {
			err = usageError("standard input is no JSON")
		}
		return raw, err
	}
	values := map[string][]json.RawMessage{}
	for len(args) > 0 {
		given, text, joined := strings.Cut(args[0], "=")
		args = args[1:]
		i := slices.IndexFunc(t.Options, func(o option) bool { return "--"+o.Name == given })
		if i < 0 {
			return nil, usageError(fmt.Sprintf("unknown option %q; fix: --help tells the options of %s", given, t.Command))
		}
		o := &t.Options[i]
		switch {
		case joined:
		case o.Kind == "boolean":
			text = "true"
		case len(args) > 0:
			text, args = args[0], args[1:]
		default:
			return nil, usageError("the value of " + given + " is missing")
		}
		value, err := o.value(text)
		if err != nil {
			return nil, err
		}
		if values[o.Member] = append(values[o.Member], value); len(values[o.Member]) > 1 && !strings.HasPrefix(o.Kind, "list:") {
			return nil, usageError(given + " is there twice")
		}
	}
	all := map[string]any{}
	for _, o := range t.Options {
		switch got := values[o.Member]; {
		case len(got) == 0 && o.Required:
			return nil, usageError("--" + o.Name + " is missing")
		case len(got) == 0:
		case strings.HasPrefix(o.Kind, "list:"):
			all[o.Member] = got
		default:
			all[o.Member] = got[0]
		}
	}
	return json.Marshal(all)
}

// value returns the text of an option as JSON.
func (o *option) value(text string) (json.RawMessage, error) {
	kind := strings.TrimPrefix(o.Kind, "list:")
	switch {
	case kind == "string":
		return json.Marshal(text)
	case kind == "integer" && !integer.MatchString(text), kind == "number" && !number.MatchString(text), kind == "boolean" && text != "true" && text != "false", !json.Valid([]byte(text)):
		return nil, usageError(fmt.Sprintf("--%s takes %s, not %q", o.Name, kind, text))
	}
	return json.RawMessage(text), nil
}

// terminal reports whether a file is a terminal.
func terminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// send calls a tool, and returns the envelope of the answer. Meanwhile it shows on a terminal how far the call is.
func (p *program) send(ctx context.Context, t *tool, arguments json.RawMessage) ([]byte, error) {
	url, token := p.URL, os.Getenv(p.TokenVariable)
	if other := os.Getenv(p.URLVariable); other != "" {
		url = other
	}
	body, err := json.Marshal(map[string]any{"tool": t.Name, "arguments": arguments})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(url, "/")+"/call-tool", bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%w; fix: set %s to an address", err, p.URLVariable)
	}
	r.Header.Set("Content-Type", "application/json")
	if terminal(os.Stderr) {
		r.Header.Set("Accept", "text/event-stream")
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(r)
	if err != nil {
		return nil, fmt.Errorf("no answer: %w; fix: start what serves %s, or set %s", err, url, p.URLVariable)
	}
	defer answer.Body.Close()
	if strings.HasPrefix(answer.Header.Get("Content-Type"), "text/event-stream") {
		return streamed(answer.Body)
	}
	envelope, err := io.ReadAll(answer.Body)
	if err == nil && !json.Valid(envelope) {
		err = fmt.Errorf("the answer, with status %d, is no JSON", answer.StatusCode)
	}
	return envelope, err
}

// streamed returns the envelope at the end of a stream, and shows the progress before it.
func streamed(body io.Reader) ([]byte, error) {
	lines, event, data := bufio.NewReader(body), "", []byte(nil)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return nil, fmt.Errorf("the answer ended before its result: %w", err)
		}
		line = bytes.TrimRight(line, "\r\n")
		if name, is := bytes.CutPrefix(line, []byte("event:")); is {
			event = string(bytes.TrimSpace(name))
		}
		if part, is := bytes.CutPrefix(line, []byte("data:")); is {
			data = append(data, bytes.TrimPrefix(part, []byte(" "))...)
		}
		if len(line) > 0 {
			continue
		}
		if event == "result" {
			fmt.Fprint(os.Stderr, "\r\x1b[K")
			return data, nil
		}
		var far struct {
			Progress, Total float64
			Message         string
		}
		if event == "progress" && json.Unmarshal(data, &far) == nil {
			fmt.Fprintf(os.Stderr, "\r\x1b[K%s %s", share(far.Progress, far.Total), visible(far.Message))
		}
		event, data = "", nil
	}
}

func share(progress, total float64) string {
	if total > 0 {
		return fmt.Sprintf("%.0f %%", 100*progress/total)
	}
	return fmt.Sprintf("%g", progress)
}

// visible returns a text of a server as it may go to a terminal.
func visible(text string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' && c != '\n' && c != '\t' || c >= 0x7f && c < 0xa0 || c >= 0x200b && c <= 0x200f || c >= 0x202a && c <= 0x202e || c >= 0x2066 && c <= 0x2069 {
			return '\uFFFD'
		}
		return c
	}, text)
}

// printed prints an answer. An answer that says that the call has failed is an error.
func printed(envelope []byte, format string) error {
	var e struct {
		Success     bool
		Error, Code string
		Data        json.RawMessage
	}
	if err := json.Unmarshal(envelope, &e); err != nil {
		return fmt.Errorf("the answer is no envelope: %w", err)
	}
	var result struct {
		ResultType string `json:"result_type"`
		IsError    bool   `json:"isError"`
		Content    []struct{ Type, Text string }
		Structured json.RawMessage `json:"structuredContent"`
		Requests   json.RawMessage `json:"input_requests"`
	}
	_ = json.Unmarshal(e.Data, &result) // what is no result has no content
	var texts []string
	for _, block := range result.Content {
		if block.Type == "text" {
			texts = append(texts, block.Text)
		}
	}
	text := strings.Join(texts, "\n")
	switch {
	case !e.Success:
		return fmt.Errorf("%s: %s", e.Code, visible(e.Error))
	case result.IsError:
		return errors.New("EXECUTION_ERROR: " + visible(text))
	case result.ResultType == "input_required":
		return fmt.Errorf("the server asks something, which this command cannot answer: %s", visible(string(result.Requests)))
	case format == "envelope":
		text = string(envelope)
	case format == "json" || len(texts) == 0 && result.Structured == nil:
		text = string(e.Data)
	case len(texts) == 0:
		text = string(result.Structured)
	case terminal(os.Stdout):
		text = visible(text)
	}
	_, err := fmt.Println(strings.TrimRight(text, "\n"))
	return err
}
