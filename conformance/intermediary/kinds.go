package intermediary

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"dragoman/conformance/suite"
)

// Kind is one kind of server that is started behind an intermediary.
type Kind struct {
	Name string // the face of the fixture
	Era  string // for the fixture's option --era
	HTTP bool   // over streamable HTTP, else over stdio
}

// Kinds returns all kinds.
func Kinds() []Kind {
	return []Kind{{"modern-http", "modern", true}, {"legacy-http", "legacy", true}, {"modern-stdio", "modern", false}, {"legacy-stdio", "legacy", false}}
}

// beyond are checks of modern servers that a legacy server cannot pass behind any intermediary, with the reasons.
var beyond = map[string]string{
	"mrtr.capability-error": legacyDecides,
	"mrtr.capability-data":  legacyDecides,
}

const legacyDecides = "a legacy server that cannot ask its client answers as it likes, and nobody else knows that it would have asked"

// excuse skips a finding that is beyond any intermediary.
func (k Kind) excuse(f *suite.Finding) {
	why, ok := beyond[f.Check.ID]
	if ok && k.Era == "legacy" && f.Face.Modern() && f.Outcome != suite.Passed {
		f.Outcome, f.Reason, f.Problems, f.Evidence = suite.Skipped, why, nil, nil
	}
}

// Placeholders in a command.
const (
	listenWord   = "{listen}"   // the HOST:PORT for clients; without it the client is on its stdin
	upstreamWord = "{upstream}" // the URL of the server behind it
	commandWord  = "{command}"  // the words of the command that starts the server behind it, in place of this one
)

// Check returns the kinds of servers that can run behind an intermediary's command, or an error if the command is not one.
func Check(argv []string) ([]Kind, error) {
	url := slices.ContainsFunc(argv, func(w string) bool { return strings.Contains(w, upstreamWord) })
	command := slices.Contains(argv, commandWord)
	if url == command {
		return nil, errors.New("intermediary: the command must name the server behind it in one way: write {upstream} where its URL belongs, or {command} as a word of its own where a command that starts it belongs")
	}
	var kinds []Kind
	for _, k := range Kinds() {
		if k.HTTP == url {
			kinds = append(kinds, k)
		}
	}
	return kinds, nil
}

// fill replaces the placeholders of a command.
func fill(argv []string, listen, upstream string, command []string) []string {
	var out []string
	for _, word := range argv {
		if word == commandWord {
			out = append(out, command...)
			continue
		}
		out = append(out, strings.NewReplacer(listenWord, listen, upstreamWord, upstream).Replace(word))
	}
	return out
}

// listens reports whether clients reach the intermediary at an address, rather than on its stdin.
func listens(argv []string) bool {
	return slices.ContainsFunc(argv, func(w string) bool { return strings.Contains(w, listenWord) })
}

// fronts returns the URLs of the intermediary: those given, with the address filled in, or the default.
func fronts(given []string, listen string) []string {
	if len(given) == 0 {
		given = []string{"http://" + listenWord + "/mcp"}
	}
	var out []string
	for _, url := range given {
		out = append(out, strings.ReplaceAll(url, listenWord, listen))
	}
	return out
}

func (k Kind) String() string { return fmt.Sprintf("a %s server", k.Name) }
