package imported

import (
	"slices"
	"strings"
	"time"

	"dragoman/internal/config/value"
)

// Key is a key of an upstream in a configuration, and its value.
type Key struct {
	// Path is the key below upstreams.NAME.
	Path []string
	// Texts is the value, or the items of a list.
	Texts []Text
	// List means that the value is a list.
	List bool
	// Refers means that the key may refer to secrets: a header or a variable.
	Refers bool
	// Bare means that the value is no text, but a truth.
	Bare bool
}

// Keys returns a server as keys of a configuration, in the order in which people write them.
func (s *Server) Keys() (keys []Key) {
	text := func(t Text, path ...string) {
		if len(t) > 0 {
			keys = append(keys, Key{Path: path, Texts: []Text{t}})
		}
	}
	list := func(all []Text, path ...string) {
		if len(all) > 0 {
			keys = append(keys, Key{Path: path, Texts: all, List: true})
		}
	}
	settings := func(all []Setting, table string) {
		for i, one := range all { // the last of a name counts
			if !slices.ContainsFunc(all[i+1:], func(later Setting) bool { return later.Name == one.Name }) {
				keys = append(keys, Key{Path: []string{table, one.Name}, Texts: []Text{one.Value}, Refers: true})
			}
		}
	}
	text(s.URL, "url")
	if s.SSE {
		text(Literal("sse"), "transport")
	}
	list(s.Command, "command")
	text(s.Dir, "cwd")
	text(s.EnvFile, "env_file")
	list(Texts(s.Inherit...), "env_inherit")
	if s.StartTimeout > 0 && len(s.Command) > 0 {
		text(Literal(within(s.StartTimeout, MostStart)), "start_timeout")
	}
	settings(s.Headers, "headers")
	settings(s.Env, "env")
	if s.ToolTimeout > 0 {
		text(Literal(within(s.ToolTimeout, MostCall)), "tools", "*", "timeout")
	}
	for _, tool := range s.Hidden {
		if tool != "" && !strings.ContainsAny(tool, "*\x00\n") {
			keys = append(keys, Key{Path: []string{"tools", tool, "enabled"}, Texts: []Text{Literal("false")}, Bare: true})
		}
	}
	list(Texts(s.Only...), "access", "*", "tools")
	return keys
}

// The longest times that a configuration can have for a start and for the silence of a call.
const (
	MostStart = 15 * time.Minute
	MostCall  = 300 * time.Second
)

// within returns a time from one second to most as configurations have it.
func within(d, most time.Duration) string {
	return min(max(d, time.Second), most).Round(time.Second).String()
}

// Value returns how the variables of a server are looked up: in files, in the environment, else their defaults.
func (s *Server) Value(lookup func(name string) (string, bool)) func(name string) (string, bool) {
	return func(name string) (string, bool) {
		if path, file := strings.CutPrefix(name, filePrefix); file {
			content, err := value.ReadSecret(path)
			return content, err == nil
		}
		if text, ok := lookup(name); ok {
			return text, true
		}
		for _, v := range s.Variables {
			if v.Name == name && v.Default != "" {
				return v.Default, true
			}
		}
		return "", false
	}
}
