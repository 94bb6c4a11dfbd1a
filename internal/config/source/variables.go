package source

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/joho/godotenv"

	"dragoman/internal/config/value"
)

// maxEnvFile bounds an env_file, in bytes.
const maxEnvFile = 64 << 10

// EnvFile reads a file of variables, and returns them sorted by name. open reports whether every user of the machine
// may read it.
func EnvFile(path string) (vars []value.NamedSecret, open bool, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, false, &value.Problem{What: fmt.Sprintf("%q cannot be read: %v", value.Shorten(path), value.Reason(err)), Fix: "check the path and the permissions"}
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxEnvFile+1))
	switch info, serr := f.Stat(); {
	case err != nil:
		return nil, false, &value.Problem{What: fmt.Sprintf("%q cannot be read: %v", value.Shorten(path), value.Reason(err)), Fix: "make it a readable file"}
	case len(data) > maxEnvFile:
		return nil, false, &value.Problem{What: fmt.Sprintf("%q is larger than %d KiB", value.Shorten(path), maxEnvFile>>10), Fix: "keep only variables in it"}
	case serr == nil && runtime.GOOS != "windows":
		open = info.Mode().IsRegular() && info.Mode().Perm()&0o004 != 0
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if at := value.BadByte(data); at >= 0 {
		return nil, false, &value.Problem{What: fmt.Sprintf("%q, line %d: is not UTF-8 text", value.Shorten(path), value.LineAt(data, at)), Fix: "save the file as UTF-8"}
	}
	values, ok := parseVariables(string(data))
	if !ok {
		return nil, false, &value.Problem{
			What: fmt.Sprintf("%q, line %d: is not NAME=VALUE (the text is not shown)", value.Shorten(path), badVariable(string(data))),
			Fix:  "write NAME=VALUE; quote a value of several lines",
		}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		vars = append(vars, value.NamedSecret{Name: name, Value: value.NewSecret(values[name])})
	}
	return vars, open, nil
}

// dollar replaces "$" while the lines are parsed, because the library would expand variables and so shorten a password
// with a "$". It is a private-use character; text that has it already is refused.
const dollar = "\uf8ff"

// parseVariables reads NAME=VALUE lines with comments, "export" and quotes as
// dotenv files have them. Nothing in a value is expanded.
func parseVariables(text string) (map[string]string, bool) {
	if strings.Contains(text, dollar) {
		return nil, false
	}
	values, err := godotenv.Unmarshal(strings.ReplaceAll(text, "$", dollar))
	if err != nil { // the error repeats the text
		return nil, false
	}
	for name, text := range values {
		if !value.Inheritable.MatchString(name) || strings.HasSuffix(name, "*") {
			return nil, false
		}
		values[name] = strings.ReplaceAll(text, dollar, "$")
	}
	return values, true
}

// maxQuoted is how many lines are searched for the end of one value.
const maxQuoted = 200

// badVariable returns the line, from 1, of the first variable that cannot be read.
func badVariable(text string) int {
	rows := strings.SplitAfter(text, "\n")
	for at := 0; at < len(rows); {
		next := at
		for end := at + 1; end <= min(len(rows), at+maxQuoted) && next == at; end++ {
			if _, ok := parseVariables(strings.Join(rows[at:end], "")); ok {
				next = end
			}
		}
		if next == at {
			return at + 1
		}
		at = next
	}
	return len(rows)
}
