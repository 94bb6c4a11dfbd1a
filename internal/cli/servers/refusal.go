package servers

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-json"
	"github.com/valyala/fasthttp"

	"dragoman/adapters/aggregator"
	"dragoman/proxy/wire"
)

// Remedy says how somebody may call the API who may not yet.
const Remedy = "`dragoman key new me --role operator` makes a key, and prints the table [aggregator.keys.me] for the configuration of the running dragoman"

// errNoAPI is the error for an answer that the API does not give.
var errNoAPI = errors.New("the answer is not that of a dragoman at which servers can be registered; fix: name its admin listener with --admin HOST:PORT")

// Refusal is an answer of the API that says what is wrong.
type Refusal struct {
	Status int
	text   string
}

// Error returns the text: a line, or one for each mistake under a heading.
func (r *Refusal) Error() string { return r.text }

// refusal returns the error that an answer says.
func refusal(status int, body []byte) error {
	var said struct {
		Detail json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(body, &said) != nil || len(said.Detail) == 0 {
		return fmt.Errorf("status %d: %w", status, errNoAPI)
	}
	var text string
	if json.Unmarshal(said.Detail, &text) == nil {
		text = wire.ShownText(text)
		switch {
		case status == fasthttp.StatusUnauthorized:
			text += "; fix: give another key with --key or DRAGOMAN_AGGREGATOR_KEY; the running dragoman must have its hash in [aggregator.keys.NAME]"
		case status == fasthttp.StatusNotFound && strings.Contains(text, "aggregator.keys"):
			text += "; fix: " + Remedy
		}
		return &Refusal{status, text}
	}
	var mistakes []aggregator.Mistake
	if json.Unmarshal(said.Detail, &mistakes) != nil || len(mistakes) == 0 {
		return fmt.Errorf("status %d: %w", status, errNoAPI)
	}
	lines := make([]string, len(mistakes))
	for i, m := range mistakes {
		lines[i] = strings.TrimPrefix(fieldOf(m.Where)+": ", ": ") + wire.ShownText(m.Text)
	}
	if len(lines) == 1 {
		return &Refusal{status, lines[0]}
	}
	return &Refusal{status, fmt.Sprintf("there are %d mistakes:\n  ", len(lines)) + strings.Join(lines, "\n  ")}
}

// flags are the flags and arguments by which fields are given.
var flags = map[string]string{
	"name": "NAME", "status": "--status", "description": "--description", "health_check_url": "--health-url", "disabled_tools": "--disable",
	"connection_config.base_url": "--url", "connection_config.url": "--url", "connection_config.headers": "--header", "connection_config.env": "--env",
	"connection_config.methods": "--grpc-method", "connection_config.command": "COMMAND", "connection_config.args": "ARG",
}

// fieldOf returns a place as the command line names it, or else as the API does.
func fieldOf(where []string) string {
	if len(where) > 0 && (where[0] == "body" || where[0] == "query") {
		where = where[1:]
	}
	for n := len(where); n > 0; n-- {
		if flag := flags[strings.Join(where[:n], ".")]; flag != "" {
			return wire.Shown(strings.Join(append([]string{flag}, where[n:]...), " "))
		}
	}
	return wire.Shown(strings.Join(where, "."))
}
