package config

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/joho/godotenv"
)

// maxEnvFile bounds an env_file, in bytes.
const maxEnvFile = 64 << 10

// envFile reads a file of variables, sorted by name. open tells that everybody
// may read it.
func envFile(path string) (vars []EnvVar, open bool, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, false, &problem{what: fmt.Sprintf("%q cannot be read: %v", Shorten(path), Reason(err)), fix: "check the path and the permissions"}
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxEnvFile+1))
	switch info, serr := f.Stat(); {
	case err != nil:
		return nil, false, &problem{what: fmt.Sprintf("%q cannot be read: %v", Shorten(path), Reason(err)), fix: "make it a readable file"}
	case len(data) > maxEnvFile:
		return nil, false, &problem{what: fmt.Sprintf("%q is larger than %d KiB", Shorten(path), maxEnvFile>>10), fix: "keep only variables in it"}
	case serr == nil && runtime.GOOS != "windows":
		open = info.Mode().IsRegular() && info.Mode().Perm()&0o004 != 0
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if at := badByte(data); at >= 0 {
		return nil, false, &problem{what: fmt.Sprintf("%q, line %d: is not UTF-8 text", Shorten(path), lineAt(data, at)), fix: "save the file as UTF-8"}
	}
	values, ok := parseVariables(string(data))
	if !ok {
		return nil, false, &problem{
			what: fmt.Sprintf("%q, line %d: is not NAME=VALUE (the text is not shown)", Shorten(path), badVariable(string(data))),
			fix:  "write NAME=VALUE; quote a value of several lines",
		}
	}
	for name, value := range values {
		vars = append(vars, EnvVar{Name: name, Value: Secret{value: value}})
	}
	slices.SortFunc(vars, func(a, b EnvVar) int { return strings.Compare(a.Name, b.Name) })
	return vars, open, nil
}

// dollar stands for "$" while the lines are parsed: the library would put other
// variables of the file in its place, and a password with a "$" would come out
// short. It is a private character; text that has it already is refused.
const dollar = "\uf8ff"

// parseVariables reads NAME=VALUE lines with comments, "export" and quotes as
// dotenv files have them. Nothing in a value is expanded.
func parseVariables(text string) (map[string]string, bool) {
	if strings.Contains(text, dollar) {
		return nil, false
	}
	values, err := godotenv.Unmarshal(strings.ReplaceAll(text, "$", dollar))
	if err != nil { // it repeats the text
		return nil, false
	}
	for name, value := range values {
		if !inheritable.MatchString(name) || strings.HasSuffix(name, "*") {
			return nil, false
		}
		values[name] = strings.ReplaceAll(value, dollar, "$")
	}
	return values, true
}

// maxQuoted is how many lines of one value are looked through for its end.
const maxQuoted = 200

// badVariable is the line, from 1, at which the first variable begins that
// cannot be read.
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
