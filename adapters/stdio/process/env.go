package process

import (
	"cmp"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// baseNames are the variables that nearly every program needs and that hold no secrets. A trailing star matches any
// ending.
var baseNames = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LC_*", "TMPDIR", "TZ", "XDG_*",
}

// baseNamesWindows are the further ones that programs on Windows need.
var baseNamesWindows = []string{
	"APPDATA", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATHEXT", "PROCESSOR_ARCHITECTURE", "PROGRAMDATA",
	"PROGRAMFILES", "PROGRAMFILES(X86)", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP", "USERNAME", "USERPROFILE", "WINDIR",
}

// hints say how to get a missing command.
var hints = map[string]string{
	"npx": "it comes with Node.js", "npm": "it comes with Node.js", "node": "install Node.js", "bunx": "it comes with Bun",
	"uvx": "it comes with uv", "uv": "install uv", "pipx": "install pipx", "python": "try python3", "docker": "install Docker",
}

// BaseEnv returns the variables of the proxy's environment that a child may have: PATH, HOME, USER, LOGNAME, SHELL, TERM,
// LANG, LC_*, TMPDIR, TZ, XDG_*, on Windows also SYSTEMROOT, APPDATA and the like, and the names in allow, which may end
// in a star. Everything else is withheld, above all the proxy's credentials. Values that begin with "()" are left out:
// they are exported shell functions, which a shell started by the child might run.
func BaseEnv(allow []string) []string { return filterEnv(os.Environ(), allow) }

// Inherited returns the variables of [BaseEnv] that only allow lets through.
func Inherited(allow []string) []string {
	usual := BaseEnv(nil)
	return slices.DeleteFunc(BaseEnv(allow), func(entry string) bool { return slices.Contains(usual, entry) })
}

func filterEnv(env, allow []string) []string {
	names := slices.Concat(baseNames, allow)
	if runtime.GOOS == "windows" {
		names = append(names, baseNamesWindows...)
	}
	var out []string
	for _, entry := range env {
		key, value, ok := strings.Cut(entry, "=")
		if !ok || key == "" || strings.HasPrefix(value, "()") {
			continue
		}
		if slices.ContainsFunc(names, func(name string) bool { return nameMatches(name, key) }) {
			out = append(out, entry)
		}
	}
	return out
}

func nameMatches(pattern, key string) bool {
	if runtime.GOOS == "windows" { // names are case-insensitive there
		pattern, key = strings.ToUpper(pattern), strings.ToUpper(key)
	}
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(key, prefix)
	}
	return key == pattern
}

// envValue returns the value of the last entry of that name; empty if there is none.
func envValue(env []string, name string) string {
	for _, entry := range slices.Backward(env) {
		if key, value, ok := strings.Cut(entry, "="); ok && nameMatches(name, key) {
			return value
		}
	}
	return ""
}

// Find returns nil if a command can be started in the environment env and the directory dir, else the error that says why
// not. Another moment may have another answer.
func Find(command string, env []string, dir string) error {
	_, err := resolve(command, env, dir)
	return err
}

// resolve returns the path of the file to run. A command with a slash is relative to dir. Any other is looked up in the
// child's PATH, then in the proxy's, in absolute directories only, so that a file in the working directory is never run
// by accident.
func resolve(command string, env []string, dir string) (string, error) {
	if command == "" {
		return "", &NotFoundError{}
	}
	var denied error
	if strings.ContainsRune(command, '/') || strings.ContainsRune(command, filepath.Separator) {
		path := command
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		path, err := filepath.Abs(path)
		if err != nil {
			return "", &StartError{Command: command, Err: err}
		}
		if found := firstExecutable(path, env, &denied); found != "" {
			return found, nil
		}
		return "", missing(command, denied, "there is no such file")
	}
	for _, list := range []string{envValue(env, "PATH"), os.Getenv("PATH")} {
		for _, place := range filepath.SplitList(list) {
			if !filepath.IsAbs(place) {
				continue
			}
			if found := firstExecutable(filepath.Join(place, command), env, &denied); found != "" {
				return found, nil
			}
		}
	}
	return "", missing(command, denied, cmp.Or(hints[command], "install it")+
		", or give its full path (looked in the PATH of the child and in our own)")
}

// firstExecutable returns the first candidate for path that can be run. It sets denied if a file exists but cannot be
// run.
func firstExecutable(path string, env []string, denied *error) string {
	names := []string{path}
	if runtime.GOOS == "windows" {
		names = programNames(path, envValue(env, "PATHEXT"))
	}
	for _, name := range names {
		err := executable(name)
		if err == nil {
			return name
		}
		if !os.IsNotExist(err) && *denied == nil {
			*denied = &os.PathError{Op: "run", Path: name, Err: err}
		}
	}
	return ""
}

// executable returns nil if the file at path can be run, os.ErrNotExist if it does not exist, else the reason.
func executable(path string) error {
	info, err := os.Stat(path) //nolint:gosec // G703: the path of a configured command
	switch {
	case err != nil:
		return os.ErrNotExist
	case info.IsDir():
		return errDirectory
	case runtime.GOOS != "windows" && info.Mode()&0o111 == 0: // on Windows it depends on the extension
		return os.ErrPermission
	}
	return nil
}

func missing(command string, denied error, hint string) error {
	if denied != nil {
		return &StartError{Command: command, Hint: "it is there but cannot be run", Err: denied}
	}
	return &NotFoundError{Command: command, Hint: hint}
}
