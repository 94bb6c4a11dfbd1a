package config

import (
	"errors"
	"net/url"
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

// dividers maps the keys that are tables to their dividers.
var dividers = map[string]string{HeadersKey: ":", EnvKey: "="}

// Flags returns the flags of a command, in the order of the configuration reference.
func Flags(on Command) []Flag {
	return append(flagsOf(Keys(), on, false), flagsOf(upstreamKeys(), on, true)...)
}

func flagsOf[T any](rows []setting[T], on Command, upstream bool) (flags []Flag) {
	var zero T
	for i := range rows {
		row := &rows[i]
		if row.flag == "" || row.on&on == 0 {
			continue
		}
		f := Flag{Key: row.Key, Name: row.flag, Arg: row.arg, Doc: row.doc, Default: row.std, Divider: dividers[row.Key], Upstream: upstream}
		if row.field != nil {
			_, f.List = row.field(&zero).(field.List)
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
		return value.ConfigErrors{value.AsConfigError(err, "", value.Source{Kind: value.FromFlag, Name: flag}, field.Listen{}.Allowed())}
	}
	return nil
}

// CheckSocket checks the address of a server that speaks lines over a socket, unix:/PATH or tcp://HOST:PORT. socket
// reports whether text is one; other URLs are not checked.
func CheckSocket(text string) (socket bool, err error) {
	field := field.URL{At: new(string)}
	if path, ok := strings.CutPrefix(text, value.UnixScheme); ok {
		return true, field.Unix(text, path)
	}
	if u, err := url.Parse(text); err == nil && u.Scheme == "tcp" {
		return true, field.Tcp(text, u)
	}
	return false, nil
}

// CheckKeyName checks the name of an API key. The error says what to write.
func CheckKeyName(name string) error {
	_, err := findAPIKey(&Config{}, name)
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
