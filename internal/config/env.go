package config

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"dragoman/internal/config/value"
)

// linkVariable matches the variables that Kubernetes sets in a pod for a Service whose name begins with dragoman, and
// which are not configuration. Examples are DRAGOMAN_SERVICE_HOST, DRAGOMAN_ADMIN_PORT and DRAGOMAN_PORT_8080_TCP_ADDR.
var linkVariable = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^DRAGOMAN_(|.+_)(SERVICE_HOST|SERVICE_PORT(_.+)?|PORT|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)
})

// inCluster is set in every pod. Elsewhere, a variable that linkVariable matches is a user's mistake.
const inCluster = "KUBERNETES_SERVICE_HOST"

// OwnVariable reports whether a variable sets a key of Dragoman's, and may hold a secret of its own.
func OwnVariable(name string) bool { return strings.HasPrefix(name, envPrefix) }

// FileVariable is the variable that names the file if --config is not given. The command reads it.
const FileVariable = envPrefix + "CONFIG"

// KeyVariable is the variable with the key of `dragoman servers`, which reads it. It sets no key of the configuration.
const KeyVariable = envPrefix + "AGGREGATOR_KEY"

// RegistryVariable and RegistryKeyVariable are the variables with the address of the MCP registry that `dragoman servers` asks, and with the
// credential for it. They set no key of the configuration.
const (
	RegistryVariable    = envPrefix + "REGISTRY"
	RegistryKeyVariable = envPrefix + "REGISTRY_KEY"
)

// ParentVariable is the variable with the process without which Dragoman ends. The command reads it; packages' launchers set it.
const ParentVariable = envPrefix + "PARENT"

// LauncherVariable is the variable with the command that starts Dragoman, which `dragoman setup` writes into the files of clients. Packages'
// launchers set it, if the program is in a cache.
const LauncherVariable = envPrefix + "LAUNCHER"

// commandVariables are those of this program that commands read, and that set no key.
var commandVariables = []string{FileVariable, KeyVariable, RegistryVariable, RegistryKeyVariable, ParentVariable, LauncherVariable}

// leastMilliseconds is the number from which MCP_TOOL_TIMEOUT, at most 300 here, is taken for another program's
// milliseconds.
const leastMilliseconds = 1000

// environment applies one of the two layers of variables. Empty variables count as not set, since compose files leave
// them so. Unknown DRAGOMAN_ variables are errors; unknown MCP_ ones belong to other programs.
func (l *loader) environment(layer value.SourceKind) {
	l.beginLayer()
	pairs := slices.Clone(l.environ)
	slices.Sort(pairs)
	for _, pair := range pairs {
		name, text, ok := strings.Cut(pair, "=")
		if !ok || text == "" {
			continue
		}
		from := value.Source{Kind: layer, Name: name}
		if layer == value.FromSharedEnv {
			l.sharedVariable(name, text, from)
			continue
		}
		if strings.HasPrefix(name, envPrefix) && !slices.Contains(commandVariables, name) {
			l.ownVariable(name, text, from)
		}
	}
}

func (l *loader) sharedVariable(name, text string, from value.Source) {
	i := slices.IndexFunc(l.keys, func(s setting) bool { return s.mcp != "" && s.mcp == name })
	if i < 0 {
		return
	}
	if n, ok := value.Word(text).Integer(); ok && l.keys[i].key == toolTimeout && n >= leastMilliseconds {
		// Claude Code passes its own MCP_TOOL_TIMEOUT, in milliseconds, to the servers that it starts.
		l.warn("%s=%d is ignored: it seems to be another program's, in milliseconds; set %s%s, at most 300 seconds", name, n, envPrefix, envName(toolTimeout))
		return
	}
	l.assign(strings.Split(l.keys[i].key, "."), value.Word(text), from)
}

func (l *loader) ownVariable(name, text string, from value.Source) {
	if i := slices.IndexFunc(l.keys, func(s setting) bool { return s.env() == name }); i >= 0 {
		l.assign(strings.Split(l.keys[i].key, "."), value.Word(text), from)
		return
	}
	link := linkVariable().MatchString(name)
	if _, pod := l.lookup(inCluster); link && pod {
		return
	}
	if rest, ok := strings.CutPrefix(name, envPrefix+"UPSTREAMS_"); ok && l.upstreamVariable(rest, text, from) {
		return
	}
	fix := "unset it; `dragoman config print` lists the keys"
	if near := value.Nearest(name, l.variables()); near != "" {
		fix = "did you mean " + near + "?"
	}
	if link {
		fix = "the address is set by " + envPrefix + envName(listenKey) + " (HOST:PORT)"
	}
	l.fail("", from, "unknown variable", fix)
}

func (l *loader) variables() []string {
	names := slices.Clone(commandVariables)
	for _, s := range l.keys {
		if env := s.env(); env != "" {
			names = append(names, env)
		}
	}
	return names
}

// upstreamVariable applies NAME_KEY. NAME is an upstream in the file, with hyphens as underscores, or else a new one
// with that name in lower case. It returns false if there is no such key.
func (l *loader) upstreamVariable(rest, text string, from value.Source) bool {
	key := ""
	for _, s := range new(Upstream).keys() {
		if suffix := "_" + envName(s.key); s.open == nil && strings.HasSuffix(rest, suffix) && len(rest) > len(suffix) && len(s.key) > len(key) {
			key = s.key
		}
	}
	if key == "" {
		return false
	}
	part := strings.TrimSuffix(rest, "_"+envName(key))
	name := strings.ToLower(part)
	if i := slices.IndexFunc(l.cfg.Upstreams, func(u *Upstream) bool { return envName(u.Name) == part }); i >= 0 {
		name = l.cfg.Upstreams[i].Name
	}
	l.assign(append([]string{UpstreamsKey, name}, strings.Split(key, ".")...), value.Word(text), from)
	return true
}
