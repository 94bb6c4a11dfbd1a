// Package command looks into commands that start servers: which packages they fetch, and whether they hold secrets.
package command

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"dragoman/internal/config/value"
)

// Package is a package that a command fetches and runs.
type Package struct {
	// Launcher is what fetches it, such as "npx" or "docker run".
	Launcher string
	// Name is that of the package, or of the image.
	Name string
	// Version is the version or digest. It is empty for a package that is a file or a directory.
	Version string
}

// launcher is a program that fetches packages and runs them.
type launcher struct {
	words []string // the program, and the words that make it run a package
	// switches are options without a value, and values those with one. Others that begin with a dash are not known, so that nobody can
	// say which word is the package.
	switches, values []string
	// names are the options whose values are packages. If main is set, it is they that are run, and not the first word.
	names []string
	main  bool
	parse func(spec string) (name, version string, ok bool)
	// example is a pinned package.
	example string
}

var npmSwitches = []string{"-y", "--yes", "-q", "--quiet", "-s", "--silent", "--offline", "--prefer-offline", "--prefer-online", "--no-install", "--ignore-existing", "--verbose"}

var npmValues = []string{"--registry", "--cache", "--loglevel"}

var uvSwitches = []string{"-q", "--quiet", "-v", "--verbose", "--isolated", "--offline", "-n", "--no-cache", "--native-tls", "--no-config", "--no-progress", "--refresh", "--managed-python", "--no-managed-python"}

var uvValues = []string{"-p", "--python", "--index-url", "-i", "--default-index", "--index", "--extra-index-url", "--cache-dir", "--directory", "--color", "--python-preference"}

var imageSwitches = []string{"-i", "-t", "-it", "-ti", "--interactive", "--tty", "--rm", "--init", "--read-only", "--privileged", "-d", "--detach", "-q", "--quiet", "--no-healthcheck", "-P", "--publish-all"}

var imageValues = []string{"-e", "--env", "--env-file", "-v", "--volume", "--mount", "--name", "--network", "--net", "-u", "--user", "-w", "--workdir", "--entrypoint", "-p", "--publish", "-m", "--memory",
	"--cpus", "--pull", "--platform", "--add-host", "-l", "--label", "-h", "--hostname", "--cap-drop", "--cap-add", "--security-opt", "--tmpfs", "--gpus", "--dns", "--log-driver", "--log-opt", "--pids-limit",
	"--shm-size", "--ulimit", "--device", "--restart", "--ipc", "--pid", "--userns", "--group-add", "--expose", "--network-alias", "--stop-signal", "--stop-timeout", "--cidfile", "--runtime", "-c", "--cpu-shares", "-a", "--attach"}

// launchers are the launchers that are known. A longer list of words stands before a shorter one.
var launchers = func() (all []launcher) {
	npm := func(names []string, words ...string) launcher {
		return launcher{words: words, switches: npmSwitches, values: npmValues, names: names, main: true, parse: npmPackage, example: "@scope/server@1.2.3"}
	}
	python := func(names []string, words ...string) launcher {
		return launcher{words: words, switches: uvSwitches, values: uvValues, names: names, main: true, parse: pythonPackage, example: "server==1.2.3"}
	}
	for _, words := range [][]string{{"npx"}, {"npm", "exec"}, {"npm", "x"}, {"pnpm", "dlx"}, {"pnpx"}, {"yarn", "dlx"}, {"bunx"}, {"bun", "x"}} {
		l := npm([]string{"-p", "--package"}, words...)
		if strings.HasPrefix(words[0], "bun") {
			l.switches = append(slices.Clone(l.switches), "--bun")
		}
		all = append(all, l)
	}
	all = append(all, python([]string{"--from"}, "uvx"), python([]string{"--from"}, "uv", "tool", "run"),
		launcher{words: []string{"pipx", "run"}, switches: []string{"--no-cache", "-q", "--quiet", "--verbose", "--pypackages"}, values: []string{"--python", "--pip-args", "--index-url", "-i"},
			names: []string{"--spec"}, main: true, parse: pythonPackage, example: "server==1.2.3"})
	for _, words := range [][]string{{"dnx"}, {"dotnet", "tool", "exec"}, {"dotnet", "dnx"}} {
		all = append(all, launcher{words: words, switches: []string{"-y", "--yes", "--prerelease", "--ignore-failed-sources", "--interactive"}, values: []string{"--source", "--add-source", "--configfile", "-v", "--verbosity", "--framework"},
			parse: nugetPackage, example: "Server@1.2.3"})
	}
	for _, words := range [][]string{{"docker", "run"}, {"docker", "container", "run"}, {"podman", "run"}, {"podman", "container", "run"}} {
		all = append(all, launcher{words: words, switches: imageSwitches, values: imageValues, parse: image, example: "registry.example/server:1.2.3"})
	}
	return all
}()

// withPackages are options of uvx that add packages.
var withPackages = []string{"--with", "-w"}

// Packages returns the packages that a command fetches and runs, if its program is a launcher that is known. The error, a *value.Problem, says
// that one has no fixed version, or that nobody can tell which it is.
func Packages(argv []string) ([]Package, error) {
	argv = inner(argv)
	for i := range launchers {
		l := &launchers[i]
		if l.starts(argv) {
			return l.packages(argv)
		}
	}
	return nil, nil
}

// inner returns the command that a wrapper starts: env, or cmd /c of Windows.
func inner(argv []string) []string {
	for len(argv) > 1 {
		switch rest := argv[1:]; {
		case programOf(argv[0]) == "env":
			for len(rest) > 0 && (strings.Contains(rest[0], "=") || rest[0] == "-i") {
				rest = rest[1:]
			}
			argv = rest
		case programOf(argv[0]) == "cmd" && strings.EqualFold(rest[0], "/c"):
			argv = rest[1:]
		default:
			return argv
		}
	}
	return argv
}

// programOf returns the name of a program, without its directory and the endings of Windows.
func programOf(word string) string {
	name := strings.ToLower(path.Base(strings.ReplaceAll(word, `\`, "/")))
	for _, end := range []string{".exe", ".cmd", ".bat", ".ps1"} {
		name = strings.TrimSuffix(name, end)
	}
	return name
}

// starts reports whether a command is one of the launcher.
func (l *launcher) starts(argv []string) bool {
	return len(argv) >= len(l.words) && programOf(argv[0]) == l.words[0] && slices.Equal(argv[1:len(l.words)], l.words[1:])
}

// packages returns the packages of a command of the launcher.
func (l *launcher) packages(argv []string) (all []Package, err error) {
	args := argv[len(l.words):]
	named := false
	add := func(spec string) error {
		name, version, ok := l.parse(spec)
		if !ok {
			return l.unpinned(argv, spec)
		}
		all = append(all, Package{strings.Join(l.words, " "), name, version})
		return nil
	}
	for i := 0; i < len(args); i++ {
		option, text, joined := strings.Cut(args[i], "=")
		switch {
		case args[i] == "--":
			if i+1 < len(args) && !named {
				return all, add(args[i+1])
			}
			return all, nil
		case !strings.HasPrefix(args[i], "-"):
			if named {
				return all, nil
			}
			return all, add(args[i])
		case slices.Contains(l.names, option), slices.Contains(withPackages, option) && l.python():
			if !joined {
				if i++; i == len(args) {
					return all, nil // it fails by itself
				}
				text = args[i]
			}
			named = named || l.main && slices.Contains(l.names, option)
			if err := add(text); err != nil {
				return nil, err
			}
		case slices.Contains(l.values, option):
			if !joined {
				i++
			}
		case joined && strings.HasPrefix(option, "--"), slices.Contains(l.switches, args[i]):
		default:
			return nil, &value.Problem{What: fmt.Sprintf("nobody can tell which package this starts: the option %q of %s is not known", value.Shorten(args[i]), strings.Join(l.words, " ")),
				Fix: "leave the option out, write it as --option=value, or set aggregator.unpinned = true, with which packages are not judged"}
		}
	}
	return all, nil
}

func (l *launcher) python() bool { return strings.HasPrefix(l.words[0], "uv") }

// unpinned returns the error for a package without a fixed version. The fix is the command as it would be with one.
func (l *launcher) unpinned(argv []string, spec string) error {
	words := slices.Clone(argv)
	fixed := l.example
	if name := bare(spec); name != "" {
		fixed = map[bool]string{true: name + "==1.2.3", false: name + "@1.2.3"}[strings.Contains(l.example, "==")]
		if strings.Contains(l.example, ":") {
			fixed = name + ":1.2.3"
		}
	}
	for i, word := range words {
		words[i] = strings.Replace(word, spec, fixed, 1)
		if words[i] != word {
			words = words[:i+1]
			break
		}
	}
	return &value.Problem{What: fmt.Sprintf("%q has no fixed version: it could be another program at each start", value.Shorten(spec)),
		Fix: fmt.Sprintf("write `%s` with the version that you have looked at, or set aggregator.unpinned = true", value.Shorten(strings.Join(words, " ")))}
}

// lazily returns a function that returns a compiled expression: few runs of the program need one, and some are large.
func lazily(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

// plain matches the name of a package or image, before a version that does not fix anything.
var plain = lazily(`^(@?[A-Za-z0-9][A-Za-z0-9._/-]*?)(\[[A-Za-z0-9,._-]*\])?(?:[@:=<>~!^].*)?$`)

// bare returns the name in a specification; empty if it is more than a name and a version.
func bare(spec string) string {
	m := plain().FindStringSubmatch(spec)
	if m == nil || strings.Contains(spec, "://") || strings.HasPrefix(spec, "github:") || strings.HasPrefix(spec, "git+") {
		return ""
	}
	return m[1] + m[2]
}

var (
	npmSpec     = lazily(`^((?:@[a-z0-9~-][a-z0-9._~-]*/)?[A-Za-z0-9~-][A-Za-z0-9._~-]*)@v?(\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?)$`)
	pythonSpec  = lazily(`^([A-Za-z0-9][A-Za-z0-9._-]*(?:\[[A-Za-z0-9,._-]*\])?)(?:==|@)v?((?:\d+!)?\d+(?:\.\d+)*(?:(?:a|b|rc)\d+)?(?:\.post\d+)?(?:\.dev\d+)?(?:\+[A-Za-z0-9.]+)?)$`)
	gitSpec     = lazily(`^(?:[A-Za-z0-9._-]+ ?@ ?)?((?:git\+(?:https|ssh)://|github:|gitlab:|bitbucket:)[^\s#]+)[@#]([0-9a-f]{40})(?:#.*)?$`)
	nugetSpec   = lazily(`^([A-Za-z0-9_][A-Za-z0-9_.-]*)@(\d+\.\d+(?:\.\d+){0,2}(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?)$`)
	imageTag    = lazily(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)
	imageDigest = lazily(`^sha256:[0-9a-f]{64}$`)
	imageName   = lazily(`^[A-Za-z0-9][A-Za-z0-9._/:-]*$`)
)

// local reports whether a specification is a file or a directory.
func local(spec string) bool {
	return strings.HasPrefix(spec, "/") || strings.HasPrefix(spec, "./") || strings.HasPrefix(spec, "../") || strings.HasPrefix(spec, "file:") || spec == "."
}

// npmPackage parses a package of npm: NAME@VERSION, a commit of a repository, or a file.
func npmPackage(spec string) (name, version string, ok bool) { return versioned(npmSpec(), spec) }

// pythonPackage parses a package of Python: NAME==VERSION, NAME@VERSION, a commit of a repository, or a file.
func pythonPackage(spec string) (name, version string, ok bool) {
	return versioned(pythonSpec(), strings.ReplaceAll(spec, " ", ""))
}

// nugetPackage parses a package of NuGet: NAME@VERSION. dnx takes no files.
func nugetPackage(spec string) (name, version string, ok bool) {
	if m := nugetSpec().FindStringSubmatch(spec); m != nil {
		return m[1], m[2], true
	}
	return "", "", false
}

func versioned(form *regexp.Regexp, spec string) (name, version string, ok bool) {
	if local(spec) {
		return spec, "", true
	}
	for _, form := range []*regexp.Regexp{form, gitSpec()} {
		if m := form.FindStringSubmatch(spec); m != nil {
			return m[1], m[2], true
		}
	}
	return "", "", false
}

// image parses an image: NAME:TAG, of which the tag is not latest, or NAME@sha256:DIGEST.
func image(spec string) (name, version string, ok bool) {
	name, digest, is := strings.Cut(spec, "@")
	if is {
		return name, digest, imageDigest().MatchString(digest) && imageName().MatchString(name)
	}
	at := strings.LastIndex(spec, ":")
	if at <= strings.LastIndex(spec, "/") {
		return "", "", false
	}
	name, version = spec[:at], spec[at+1:]
	return name, version, imageName().MatchString(name) && imageTag().MatchString(version) && version != "latest"
}
