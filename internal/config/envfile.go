package config

import (
	"fmt"
)

// readEnvFile reads an upstream's env_file, a path relative to the working
// directory. Errors name the file and the line, never what stands there.
func (l *loader) readEnvFile(u *Upstream, key string, from Source) {
	if u.EnvFile == "" {
		return
	}
	vars, open, err := envFile(u.EnvFile)
	if err != nil {
		l.fail(err, key, from, "")
		return
	}
	u.FileEnv = vars
	if open {
		l.cfg.Warnings = append(l.cfg.Warnings, fmt.Sprintf("%s: %q can be read by everybody on this machine; chmod 600 keeps its secrets", key, Shorten(u.EnvFile)))
	}
}
