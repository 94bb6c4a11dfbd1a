package app

import (
	"slices"
	"strings"

	"github.com/rs/zerolog"

	"dragoman/adapters/stdio/process"
	"dragoman/internal/config"
	"dragoman/internal/config/value"
)

// mostWithheld bounds the names in a line of the log.
const mostWithheld = 20

// withClientEnv returns the upstream of `dragoman stdio` with the variables that the client means for it. A client that
// launches `dragoman stdio -- COMMAND` in the place of COMMAND sets what COMMAND needs, and COMMAND alone would get the whole
// environment: so it does, but for Dragoman's own variables. An upstream of a file gets what the file says; the log names what
// it does not get, never a value. An env_inherit that is given decides in both cases.
func withClientEnv(cfg *config.Config, up *config.Upstream, environ []string, log zerolog.Logger) *config.Upstream {
	if len(up.Command) == 0 || cfg.Source("upstreams."+up.Name+".env_inherit").Set() {
		return up
	}
	var names []string
	usual := process.BaseEnv(nil)
	for _, entry := range environ {
		name, _, ok := strings.Cut(entry, "=")
		if ok && name != "" && !strings.Contains(name, "*") && !config.OwnVariable(name) && !slices.Contains(ofShell, name) && !slices.Contains(usual, entry) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return up
	}
	if cfg.Source("upstreams."+up.Name+".command").Kind == value.FromFlag {
		own := *up
		own.EnvInherit = names
		return &own
	}
	slices.Sort(names)
	log.Info().Str("upstream", up.Name).Int("count", len(names)).Strs("names", names[:min(len(names), mostWithheld)]).
		Msg("the server does not get these variables of the environment; env_inherit names those that it should")
	return up
}

// ofShell are variables that every shell sets for itself. They mean nothing for another program.
var ofShell = []string{"PWD", "OLDPWD", "SHLVL", "_"}
