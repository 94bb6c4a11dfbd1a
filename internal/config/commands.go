package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"dragoman/internal/config/field"
	"dragoman/internal/config/source"
	"dragoman/internal/config/value"
)

// Flag is a command-line flag that sets one key of the configuration.
type Flag struct {
	// Key is the dotted key that the flag sets.
	Key string
	// Name is the flag's name, without dashes.
	Name string
	// Arg is the placeholder for the value in help, such as HOST:PORT; it is empty for a switch.
	Arg string
	// Doc describes the key in one line. Default is the default as one writes it in the environment, empty if there is
	// none.
	Doc, Default string
	// List says that each use of the flag adds an item.
	List bool
	// Divider separates NAME and VALUE in a flag that sets an entry of a table: ":" for headers, as on the wire, "="
	// for variables, as in a shell. It is empty for other flags.
	Divider string
	// Upstream says that the key belongs to an upstream.
	Upstream bool
}

// Flags returns the flags of a command, in the order of the configuration reference.
func Flags(on Command) []Flag {
	return append(flagsOf(new(Config).keys(), on, false), flagsOf(new(Upstream).keys(), on, true)...)
}

func flagsOf(rows []setting, on Command, upstream bool) (flags []Flag) {
	for _, row := range rows {
		if row.flag == "" || row.on&on == 0 {
			continue
		}
		f := Flag{Key: row.key, Name: row.flag, Arg: row.arg, Doc: row.doc, Default: row.std, Upstream: upstream}
		switch {
		case row.open == nil:
			_, f.List = row.field.(field.List)
		case row.open.fold: // headers
			f.Divider = ":"
		default:
			f.Divider = "="
		}
		flags = append(flags, f)
	}
	return flags
}

// AdminAddress returns the address of the admin listener of a `dragoman serve` with this environment: that of --admin
// (flag, empty if not given), of the variable, of the file (empty for none), or the default. Other errors in the file
// are ignored, because the running process has refused such a file and goes on with what it had. unread says why the
// file could not be read, if nothing else sets the address.
func AdminAddress(environ []string, file, flag string) (address string, unread, err error) {
	l := newLoader(LoadOptions{Environ: environ})
	path := strings.Split(adminKey, ".")
	var problems value.ConfigErrors
	if file != "" {
		var entries []source.Entry
		l.beginLayer()
		entries, problems = source.Read(file, userTable)
		if at := slices.IndexFunc(entries, func(e source.Entry) bool { return value.KeyText(e.Path) == adminKey }); at >= 0 { // serve reports a second one
			l.assign(path, entries[at].Value, value.Source{Kind: value.FromFile, Name: file, Line: entries[at].Line})
		}
		problems, l.errs = append(problems, l.errs...), nil
	}
	name := envPrefix + envName(adminKey)
	if text, _ := l.lookup(name); text != "" {
		l.beginLayer()
		l.assign(path, value.Word(text), value.Source{Kind: value.FromEnv, Name: name})
	}
	if flag != "" {
		l.beginLayer()
		l.assign(path, value.Word(flag), value.Source{Kind: value.FromFlag, Name: "--admin"})
	}
	if len(l.errs) > 0 {
		return "", nil, l.errs
	}
	if len(problems) > 0 && !l.cfg.Source(adminKey).Set() {
		unread = problems[0]
	}
	return l.cfg.Admin.Listen, unread, nil
}

// AdminVariable is the environment variable that sets the address of the admin listener.
const AdminVariable = envPrefix + "ADMIN_LISTEN"

// CheckListen checks a HOST:PORT that was given with a flag. The error says what to write.
func CheckListen(flag, address string) error {
	if _, _, err := field.SplitListen(value.Word(address)); err != nil {
		return value.ConfigErrors{value.AsConfigError(err, "", value.Source{Kind: value.FromFlag, Name: flag}, field.Allowed(field.Listen{Host: new(string), Port: new(int)}))}
	}
	return nil
}

// ParseLevel returns the level of the log that is spelled as in the configuration. The error says what to write.
func ParseLevel(text string) (string, error) {
	var c Config
	f := c.levelField()
	if err := f.Set(value.Literal{Kind: value.QuotedLiteral, Text: text}); err != nil {
		return "", fmt.Errorf("level: %w; write %s", err, field.Allowed(f))
	}
	return c.Log.Level, nil
}

// CheckKeyName checks the name of an API key. The error says what to write.
func CheckKeyName(name string) error {
	_, err := newAPIKey(name)
	return err
}

// FullText returns the text of an error with its fix, if it has one.
func FullText(err error) string {
	var p *value.Problem
	if errors.As(err, &p) {
		return value.WithFix(p.What, p.Fix)
	}
	return err.Error()
}
