package imported

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"dragoman/internal/config/value"
	"dragoman/proxy/wire"
)

// Kind is what the values of a [Variable] are.
type Kind int

// The kinds of values. A File or a Directory is a path on the machine that starts the server.
const (
	String Kind = iota
	Number
	Boolean
	File
	Directory
)

// String returns the kind in words, with its article.
func (k Kind) String() string {
	return [...]string{"a text", "a number", "true or false", "the path of a file", "the path of a directory"}[k]
}

// maxValue is the greatest length of a value in bytes, and maxValues how many a repeated variable may have.
const (
	maxValue  = 16 << 10
	maxValues = 64
)

// Values are what was given for variables, by their names.
type Values map[string][]string

// Refers reports whether a value is a reference that the running Dragoman resolves: env:NAME, or file: and an absolute path.
func Refers(text string) bool { return value.Refers(text) }

// reading finds what the resolution of references would replace: "${".
const reading = "${"

// Reads reports whether a text, put where references are resolved, would be one or hold one. A description that has such a text would read
// secrets that nobody has given to it.
func Reads(text string) bool { return Refers(text) || strings.Contains(text, reading) }

// Reads reports whether the literals of a text together would be read as a reference: their pieces may come from different hands.
func (t Text) Reads() bool {
	var all strings.Builder
	for _, p := range t {
		if p.Variable == "" {
			all.WriteString(p.Literal)
		} else {
			all.WriteByte('x')
		}
	}
	return Reads(all.String())
}

// Check returns an error if values are not valid for a variable. It never repeats a value: it may be a secret that was written at the
// wrong place.
func (v *Variable) Check(values []string) error {
	if len(values) > 1 && !v.Repeated {
		return v.wrong("has several values", "give one")
	}
	if len(values) > maxValues {
		return v.wrong(fmt.Sprintf("has more than %d values", maxValues), "give fewer")
	}
	for _, text := range values {
		if err := v.check(text); err != nil {
			return err
		}
	}
	return nil
}

func (v *Variable) check(text string) error {
	switch {
	case len(text) > maxValue:
		return v.wrong(fmt.Sprintf("has more than %d bytes", maxValue), "refer to a file with file:/path")
	case value.HasControl(text):
		return v.wrong("has control characters", "leave them out")
	case Refers(text):
		return nil // what it is, the running Dragoman finds out
	case v.Secret:
		return v.wrong("is a secret and is no reference", "write "+wire.Shown(v.Name)+"=env:NAME or "+wire.Shown(v.Name)+"=file:/path, which the running dragoman reads")
	case strings.Contains(text, reading):
		return v.wrong("contains ${, which would be read as a reference", "write env:NAME alone, or leave it out")
	case len(v.Choices) > 0 && !slices.Contains(v.Choices, text):
		return v.wrong("is none of its values", "write "+value.OneOf(shownAll(v.Choices)))
	}
	return v.checkKind(text)
}

func (v *Variable) checkKind(text string) error {
	switch v.Kind {
	case Boolean:
		if text != "true" && text != "false" {
			return v.wrong("is not true or false", "write true or false")
		}
	case Number:
		n, err := strconv.ParseFloat(text, 64)
		switch {
		case err != nil || math.IsNaN(n) || math.IsInf(n, 0) || strings.ContainsAny(text, "xX_pP"):
			return v.wrong("is no number", "write a decimal number")
		case v.Min != nil && n < *v.Min:
			return v.wrong("is too small", "write "+decimal(*v.Min)+" or more")
		case v.Max != nil && n > *v.Max:
			return v.wrong("is too large", "write "+decimal(*v.Max)+" or less")
		}
	case File, Directory:
		if text == "" {
			return v.wrong("is empty", "write a path")
		}
	case String:
	}
	return nil
}

func decimal(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

func shownAll(texts []string) []string {
	shown := make([]string, 0, len(texts))
	for _, text := range texts {
		shown = append(shown, wire.Shown(text))
	}
	return shown
}

func (v *Variable) wrong(what, fix string) error {
	return fmt.Errorf("the value of %s %s; fix: %s", wire.Shown(v.Name), what, fix)
}

// Missing returns the variables that need a value and have neither one nor a default.
func Missing(variables []Variable, given Values) (all []Variable) {
	for _, v := range variables {
		if v.Required && v.Default == "" && len(given[v.Name]) == 0 {
			all = append(all, v)
		}
	}
	return all
}

// CheckAll returns an error if a value is given for no variable, or is not valid for its own.
func CheckAll(variables []Variable, given Values) error {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		at := slices.IndexFunc(variables, func(v Variable) bool { return v.Name == name })
		if at < 0 {
			known := make([]string, 0, len(variables))
			for _, v := range variables {
				known = append(known, wire.Shown(v.Name))
			}
			fix := "leave it out"
			if len(known) > 0 {
				fix = "write " + value.OneOf(known)
			}
			return fmt.Errorf("there is no variable %s; fix: %s", wire.Shown(name), fix)
		}
		if err := variables[at].Check(given[name]); err != nil {
			return err
		}
	}
	return nil
}

// Of returns the values of a variable: those that were given, else its default, else none.
func (v *Variable) Of(given Values) []string {
	if values := given[v.Name]; len(values) > 0 {
		return values
	}
	if v.Default != "" {
		return []string{v.Default}
	}
	return nil
}

// ValuePart returns a given value as a part of a text: the reference that it is, or itself.
func ValuePart(text string) Part {
	if name, is := strings.CutPrefix(text, "env:"); is && Refers(text) {
		return Part{Variable: name}
	}
	if Refers(text) {
		return Part{Variable: text}
	}
	return Part{Literal: text}
}
