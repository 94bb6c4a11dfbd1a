package registry

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-json"
	"github.com/valyala/fasthttp"

	"dragoman/adapters/aggregator"
	"dragoman/internal/config/command"
	"dragoman/internal/config/value"
)

// restored returns a connection with the stored values in the place of those that the API hides (see shown). Values are restored for the stored
// address or command only: with another one, a caller could have secrets sent to where he reads them.
func restored(connection, stored []byte) ([]byte, error) {
	var next, now map[string]any
	if json.Unmarshal(connection, &next) != nil || json.Unmarshal(stored, &now) != nil {
		return connection, nil // which is refused elsewhere
	}
	address, own := addressOf(now)
	if key, text := addressOf(next); key != "" && address != "" && text == value.RedactURL(own) {
		next[key] = own
	}
	wrong := restoreArguments(next, now)
	_, text := addressOf(next)
	same := text == own && next["command"] == now["command"] && slices.Equal(arguments(next), arguments(now))
	for _, kind := range []string{"headers", "env"} {
		fields, _ := next[kind].(map[string]any)
		known, _ := now[kind].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			if fields[name] != value.Hidden {
				continue
			}
			if known[name] == nil || !same {
				wrong = append(wrong, aggregator.Mistake{Where: []string{"body", "connection_config", kind, name}, Text: "is hidden, and is kept with the same address and command only; fix: write its value", Type: "value_error"})
				continue
			}
			fields[name] = known[name]
		}
	}
	if len(wrong) > 0 {
		return nil, &aggregator.Problem{Status: fasthttp.StatusUnprocessableEntity, Detail: wrong}
	}
	return json.MarshalWithOption(next, json.DisableHTMLEscape())
}

// restoreArguments puts the stored arguments in the place of those that are as they are shown, for the same program. Another one that is hidden
// is a mistake.
func restoreArguments(next, now map[string]any) (wrong []aggregator.Mistake) {
	given, own := arguments(next), arguments(now)
	if next["command"] == now["command"] && slices.Equal(given, command.Shown(own)) {
		if len(own) > 0 {
			next["args"] = own
		}
		return nil
	}
	for i, arg := range given {
		if strings.Contains(arg, value.Hidden) || strings.Contains(arg, "?(hidden)") {
			wrong = append(wrong, aggregator.Mistake{Where: []string{"body", "connection_config", "args", strconv.Itoa(i)}, Text: "is hidden, and is kept with the same command and arguments only; fix: write its value", Type: "value_error"})
		}
	}
	return wrong
}

// addressOf returns the address of a connection and its key; empty: it has none, or two, which is refused elsewhere.
func addressOf(connection map[string]any) (key, text string) {
	if connection["base_url"] != nil && connection["url"] != nil {
		return "", ""
	}
	for _, key := range []string{"base_url", "url"} {
		if text, ok := connection[key].(string); ok {
			return key, text
		}
	}
	return "", ""
}

// arguments returns those of a command. Absent ones are none.
func arguments(connection map[string]any) (all []string) {
	if restored, is := connection["args"].([]string); is {
		return restored
	}
	list, _ := connection["args"].([]any)
	for _, one := range list {
		all = append(all, fmt.Sprint(one))
	}
	return all
}
