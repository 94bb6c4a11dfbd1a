package mock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"dragoman/conformance/peer"
)

// Placeholders for the server in a client's command.
const (
	urlWord     = "{url}"     // the URL of the mock, which is the last word without a placeholder
	commandWord = "{command}" // the command that starts the mock; within another word it has shell quoting
)

func has(argv []string, word string) bool {
	return slices.ContainsFunc(argv, func(w string) bool { return strings.Contains(w, word) })
}

// Tests reports whether a client's command is tested at a face: over stdio if it has {command}, over HTTP if it has {url}. Without either
// its last word is the URL or, at faces of stdio that asked names, the command of the server.
func Tests(argv []string, asked []peer.Face, face peer.Face) bool {
	url, command := has(argv, urlWord), has(argv, commandWord)
	switch {
	case !slices.Contains(Faces(), face), len(asked) > 0 && !slices.Contains(asked, face):
		return false
	case face.Stdio():
		return command || !url && len(asked) > 0
	}
	return url || !command
}

// Check returns an error if a client's command fits none of the requested faces; an empty list stands for all.
func Check(argv []string, asked []peer.Face) error {
	if slices.ContainsFunc(Faces(), func(f peer.Face) bool { return Tests(argv, asked, f) }) {
		return nil
	}
	if has(argv, urlWord) {
		return errors.New("mock: the client's command takes a URL, which the faces asked for have not; write {command} where the command of a server on stdio belongs")
	}
	return errors.New("mock: the client's command takes a server's command, which the faces asked for have not; write {url} where the URL of a server belongs")
}

// words returns the client's command of one run: over HTTP server is nil, over stdio url is "".
func words(argv []string, url string, server []string) (out []string) {
	for _, w := range argv {
		if w == commandWord {
			out = append(out, server...)
			continue
		}
		out = append(out, strings.NewReplacer(urlWord, url, commandWord, shellWords(server)).Replace(w))
	}
	switch {
	case has(argv, urlWord) || has(argv, commandWord):
	case server != nil:
		out = append(out, server...)
	default:
		out = append(out, url)
	}
	return out
}

// shellWords joins words with shell quoting.
func shellWords(all []string) string {
	var out []string
	for _, w := range all {
		if strings.ContainsAny(w, " \t\n'\"\\$&|;<>()*?[]{}~#`!") || w == "" {
			w = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		out = append(out, w)
	}
	return strings.Join(out, " ")
}

// client runs the command and waits for its exit. Then it calls after, and only then ends the processes that the command has left.
func (r *run) client(ctx context.Context, argv []string, url string, server []string, after func()) error {
	env := append(os.Environ(), "MCP_CONFORMANCE_SCENARIO="+r.scenario.Name, "MCP_CONFORMANCE_PROTOCOL_VERSION="+r.revision, "MCP_CONFORMANCE_FACE="+string(r.face),
		"MCP_CONFORMANCE_URL="+url, "MCP_CONFORMANCE_COMMAND="+shellWords(server))
	child, err := peer.StartChild(ctx, peer.Command{Argv: words(argv, url, server), Env: env, Grace: 2 * time.Second}, nil)
	if err != nil {
		return fmt.Errorf("the client: %w", err)
	}
	var last string
	for err == nil {
		var line string
		if line, err = child.Next(ctx); err == nil {
			last = line
		}
	}
	late := ctx.Err() != nil
	if !late {
		after()
	}
	end, _ := child.Close()
	if said := child.Stderr(); len(said) > 0 {
		last = said[len(said)-1]
	}
	r.exit, r.failed, r.late = end, late || !strings.Contains(end, "exited with code 0 "), late
	if late {
		r.exit = "it did not end in time"
	}
	if last != "" {
		r.exit += "; it said last: " + last
	}
	return nil
}
