package config

import (
	"fmt"
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

// FileVariable is the variable that names the file if --config is not given. The command reads it.
const FileVariable = envPrefix + "CONFIG"

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
		if strings.HasPrefix(name, envPrefix) && name != FileVariable {
			l.ownVariable(name, text, from)
		}
	}
}

func (l *loader) sharedVariable(name, text string, from value.Source) {
	if !strings.HasPrefix(name, "MCP_") {
		return
	}
	for i := range l.settings {
		row := &l.settings[i]
		if row.mcp != name {
			continue
		}
		if n, ok := value.Word(text).Integer(); ok && row.Key == toolTimeout && n >= leastMilliseconds {
			// Claude Code passes its own MCP_TOOL_TIMEOUT, in milliseconds, to the servers that it starts.
			l.cfg.Warnings = append(l.cfg.Warnings, fmt.Sprintf("%s=%d is ignored: it seems to be another program's, in milliseconds; set %s%s, at most 300 seconds", name, n, envPrefix, envName(toolTimeout)))
			return
		}
		l.assign(strings.Split(row.Key, "."), value.Word(text), from)
		return
	}
}

func (l *loader) ownVariable(name, text string, from value.Source) {
	for i := range l.settings {
		if l.settings[i].env() == name {
			l.assign(strings.Split(l.settings[i].Key, "."), value.Word(text), from)
			return
		}
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
	l.errs = append(l.errs, &value.ConfigError{Source: from, Problem: "unknown variable", Fix: fix})
}

func (l *loader) variables() []string {
	names := []string{FileVariable}
	for i := range l.settings {
		if env := l.settings[i].env(); env != "" {
			names = append(names, env)
		}
	}
	return names
}

// upstreamVariable applies NAME_KEY. NAME is an upstream in the file, with hyphens as underscores, or else a new one
// with that name in lower case. It returns false if there is no such key.
func (l *loader) upstreamVariable(rest, text string, from value.Source) bool {
	best := -1
	for i := range l.below {
		suffix := "_" + envName(l.below[i].Key)
		if l.below[i].open || !strings.HasSuffix(rest, suffix) || len(rest) == len(suffix) {
			continue
		}
		if best < 0 || len(l.below[i].Key) > len(l.below[best].Key) {
			best = i
		}
	}
	if best < 0 {
		return false
	}
	part := strings.TrimSuffix(rest, "_"+envName(l.below[best].Key))
	name := strings.ToLower(part)
	for _, u := range l.cfg.Upstreams {
		if envName(u.Name) == part {
			name = u.Name
			break
		}
	}
	l.assign([]string{UpstreamsKey, name, l.below[best].Key}, value.Word(text), from)
	return true
}
