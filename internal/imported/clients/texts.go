package clients

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"dragoman/internal/config/value"
	"dragoman/internal/imported"
)

// dialect is how a client writes variables within texts.
type dialect struct {
	// form matches a reference; its first group that matched is the inside.
	form *regexp.Regexp
	// plain means that ${NAME} is a variable; otherwise only ${env:NAME} is.
	plain bool
	// own means that ${NAME} is none if the server has a variable NAME of its own: then the program replaces it, as mcp-remote does.
	own bool
}

var (
	braced = regexp.MustCompile(`\$\{([^{}]*)\}`)
	// dollar also matches $NAME, as Gemini CLI does.
	dollar = regexp.MustCompile(`\$\{([^{}]*)\}|\$([A-Za-z_][A-Za-z0-9_]*)`)
)

// Dialects of the clients, after their makers' documents.
var (
	noVariables     = dialect{}
	envVariables    = dialect{form: braced}                         // ${env:NAME}, ${input:ID}, ${userHome}, ${workspaceFolder}, ${file:/path}
	shellVariables  = dialect{form: braced, plain: true}            // ${NAME}, ${NAME:-default}
	dollarVariables = dialect{form: dollar, plain: true}            // $NAME too
	anyVariables    = dialect{form: braced, plain: true, own: true} // a file of no known client
)

// text reads a text with the variables of the dialect.
func (r *reader) text(s string) imported.Text {
	d := r.from.dialect
	if d.form == nil || s == "" {
		return imported.Texts(s)[0]
	}
	var t imported.Text
	at := 0
	for _, m := range d.form.FindAllStringSubmatchIndex(s, -1) {
		inside := m[2:4]
		if m[2] < 0 {
			inside = m[4:6]
		}
		part, ok := r.part(s[inside[0]:inside[1]])
		if !ok {
			continue
		}
		if at < m[0] {
			t = append(t, imported.Part{Literal: s[at:m[0]]})
		}
		t, at = append(t, part), m[1]
	}
	if at < len(s) {
		t = append(t, imported.Part{Literal: s[at:]})
	}
	return t
}

// part returns what a reference stands for; false means that it is no reference.
func (r *reader) part(inside string) (imported.Part, bool) {
	kind, name, prefixed := strings.Cut(inside, ":")
	switch {
	case prefixed && kind == "env" && value.IsVariable(name):
		return imported.Part{Variable: name}, true
	case prefixed && kind == "input":
		v := r.input(name)
		return imported.Part{Variable: v.Name, Default: v.Default, HasDefault: v.Default != "" && !v.Secret}, true
	case prefixed && kind == "file" && filepath.IsAbs(name):
		return imported.Part{Variable: "file:" + name}, true
	case inside == "userHome":
		return imported.Part{Literal: r.home}, true
	case inside == "pathSeparator", inside == "/":
		return imported.Part{Literal: string(os.PathSeparator)}, true
	case inside == "workspaceFolder", inside == "workspaceFolderBasename":
		return r.workspace(inside)
	case r.from.dialect.plain:
		return r.plainPart(inside)
	case prefixed && slices.Contains([]string{"command", "config", "workspaceFolder", "env"}, kind):
		r.lose("${" + inside + "} is known to the client only, and stays as it is")
	}
	return imported.Part{}, false
}

// plainPart returns the variable of ${NAME} or ${NAME:-default}.
func (r *reader) plainPart(inside string) (imported.Part, bool) {
	name, std, has := strings.Cut(inside, ":-")
	if !value.IsVariable(name) || r.from.dialect.own && r.own[name] {
		return imported.Part{}, false
	}
	return imported.Part{Variable: name, Default: std, HasDefault: has}, true
}

// workspace returns the folder of the project that a file belongs to.
func (r *reader) workspace(inside string) (imported.Part, bool) {
	if r.project == "" {
		r.lose("${" + inside + "} has no value: the file belongs to no project")
		return imported.Part{}, false
	}
	if inside == "workspaceFolderBasename" {
		return imported.Part{Literal: filepath.Base(r.project)}, true
	}
	return imported.Part{Literal: r.project}, true
}

// input is a value that VS Code asks its user for.
type input struct {
	id string
	imported.Variable
}

// inputs reads the list of inputs of a file of VS Code.
func (r *reader) inputs(list *node) {
	if list == nil || list.kind != '[' {
		return
	}
	for i := range list.items {
		one := &list.items[i]
		id := textOf(one.at("id"))
		if id == "" {
			continue
		}
		made := input{id, imported.Variable{Name: imported.VariableName(id), Description: textOf(one.at("description")), Default: textOf(one.at("default")), Secret: textOf(one.at("password")) == "true", Required: true}}
		if options := one.at("options"); options != nil {
			for i := range options.items {
				option := &options.items[i]
				if choice := textOf(option) + textOf(option.at("value")); choice != "" {
					made.Choices = append(made.Choices, choice)
				}
			}
		}
		r.asked = append(r.asked, made)
	}
}

// input returns the variable of an input, and notes that the server needs it.
func (r *reader) input(id string) imported.Variable {
	name := imported.VariableName(id)
	at := slices.IndexFunc(r.asked, func(i input) bool { return i.id == id })
	known := imported.Variable{Name: name, Required: true}
	if at >= 0 {
		known = r.asked[at].Variable
	} else {
		r.lose(fmt.Sprintf("the input %s is not described in the file", shown(id)))
	}
	if !slices.ContainsFunc(r.server.Variables, func(v imported.Variable) bool { return v.Name == name }) {
		r.server.Variables = append(r.server.Variables, known)
	}
	return known
}

// textOf returns a scalar as text; "" for anything else.
func textOf(n *node) string {
	if n == nil {
		return ""
	}
	text, _ := n.scalar()
	return text
}
