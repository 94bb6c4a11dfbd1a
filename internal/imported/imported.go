// Package imported holds MCP servers as others describe them: the file of a client, an entry of a registry, a bundle. The packages below it read
// each of these; what uses them makes configuration or registrations of them.
package imported

import (
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Server is an MCP server as somebody else describes it. Its texts come from outside: show them with [wire.Shown] only.
type Server struct {
	// Name is the name in the description, which may be no name of ours: see [Name].
	Name string
	// Description says what the server is for; it may be empty.
	Description string
	// From says where the description is, such as "mcp.json:12".
	From string
	// Command is the program and its arguments, or empty for a server with a URL.
	Command []Text
	// Dir is the working directory of the command; empty: any.
	Dir Text
	// URL is the address of a server without a command: http or https.
	URL Text
	// SSE means that the address speaks HTTP+SSE of 2024-11-05, and not streamable HTTP.
	SSE bool
	// Headers are sent to the URL. Env are variables of the command.
	Headers, Env []Setting
	// Inherit names variables that the command gets from the environment of whoever starts it.
	Inherit []string
	// EnvFile is a file of NAME=VALUE lines for the command; empty: none.
	EnvFile Text
	// StartTimeout is how long the start may take, and ToolTimeout how long a call; 0: not said.
	StartTimeout, ToolTimeout time.Duration
	// Variables are the values that the description leaves open, in its order.
	Variables []Variable
	// Disabled means that the description has the server switched off.
	Disabled bool
	// Only are the tools that clients may see; empty: all. Hidden are those that they may not see.
	Only, Hidden []string
	// Lost says what of the description is not taken over, a line each, without secrets.
	Lost []string
}

// Setting is a header or a variable of a child's environment.
type Setting struct {
	Name  string
	Value Text
	// Secret means that the description calls the value a secret.
	Secret bool
}

// Variable is a value that a description leaves to whoever uses it.
type Variable struct {
	// Name is a name of a variable, as in the texts.
	Name string
	// Description says what the value is; it may be empty.
	Description string
	// Default is the value if none is given.
	Default string
	// Choices are the only values, if there are any.
	Choices []string
	// Secret means that the value must not be shown or stored as it is.
	Secret bool
	// Required means that there is no server without a value.
	Required bool
	// Kind says which values are valid.
	Kind Kind
	// Repeated means that there may be several values.
	Repeated bool
	// Min and Max bound a [Number]; nil: they do not.
	Min, Max *float64
}

// Text is a text with variables in it.
type Text []Part

// Part is a piece of a [Text]: a literal, or a variable.
type Part struct {
	// Literal is the piece itself, if Variable is empty.
	Literal string
	// Variable names a variable of the environment, or one of [Server.Variables], or is "file:/path" for the content of a file.
	Variable string
	// Default stands for a variable that has no value, if HasDefault is set.
	Default    string
	HasDefault bool
}

// Literal returns a text without variables.
func Literal(text string) Text {
	if text == "" {
		return nil
	}
	return Text{{Literal: text}}
}

// Variables returns the names of the variables in a text, in its order.
func (t Text) Variables() (names []string) {
	for _, p := range t {
		if p.Variable != "" && !slices.Contains(names, p.Variable) {
			names = append(names, p.Variable)
		}
	}
	return names
}

// Fill replaces variables by their values. missing are the names of those that have neither a value nor a default; they stay as ${NAME}.
func (t Text) Fill(lookup func(name string) (string, bool)) (text string, missing []string) {
	var b strings.Builder
	for _, p := range t {
		if p.Variable == "" {
			b.WriteString(p.Literal)
			continue
		}
		if value, ok := lookup(p.Variable); ok {
			b.WriteString(value)
		} else if p.HasDefault {
			b.WriteString(p.Default)
		} else {
			b.WriteString("${" + p.Variable + "}")
			missing = append(missing, p.Variable)
		}
	}
	return b.String(), missing
}

// String returns the text with its variables as ${NAME}, without their defaults.
func (t Text) String() string {
	var b strings.Builder
	for _, p := range t {
		if b.WriteString(p.Literal); p.Variable != "" {
			b.WriteString("${" + p.Variable + "}")
		}
	}
	return b.String()
}

// Texts returns literals.
func Texts(texts ...string) []Text {
	all := make([]Text, len(texts))
	for i, text := range texts {
		if all[i] = Literal(text); text == "" {
			all[i] = Text{{}}
		}
	}
	return all
}

// VariableName makes a name of an environment variable of a name such as "api-key": API_KEY.
func VariableName(name string) string {
	upper := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return unicode.ToUpper(r)
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_':
			return r
		}
		return '_'
	}, name)
	if upper == "" || upper[0] >= '0' && upper[0] <= '9' {
		upper = "_" + upper
	}
	return upper
}

// maxName is the greatest length of a name that Name makes, in bytes.
const maxName = 64

// Name makes a name of a server as configurations have it: lower-case letters, digits, hyphens and underscores, a letter first, at most 64 bytes.
// taken reports whether another server has a name; then a number follows.
func Name(name string, taken func(string) bool) string {
	last := name[strings.LastIndexByte(name, '/')+1:] // io.github.me/server
	var b strings.Builder
	for _, r := range strings.ToLower(last) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '_', r == '-':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	made := strings.TrimRight(b.String(), "-_")
	if made == "" || made[0] < 'a' || made[0] > 'z' {
		made = strings.TrimRight("server-"+strings.TrimLeft(made, "-_"), "-")
	}
	made = strings.TrimRight(made[:min(len(made), maxName)], "-_")
	if !taken(made) {
		return made
	}
	for n := 2; ; n++ {
		suffix := "-" + strconv.Itoa(n)
		next := strings.TrimRight(made[:min(len(made), maxName-len(suffix))], "-_") + suffix
		if !taken(next) {
			return next
		}
	}
}
