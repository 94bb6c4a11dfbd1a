package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/rs/zerolog"

	"dragoman/adapters/httpd/httpserver"
	"dragoman/adapters/stdio/process"
	"dragoman/internal/config"
	"dragoman/internal/config/field"
)

// Check makes what serve makes of a configuration, without a request to any server and without a child process, and
// returns what keeps serve from starting here. The warnings are of what may be different when it starts.
func Check(cfg *config.Config) (warnings []string, err error) {
	rehearsed := *cfg
	rehearsed.Audit.Enabled = false // the file is not to be made by a check
	rehearsed.Dependencies = nil    // they would be asked
	a := newApp(zerolog.Nop(), nil)
	a.rehearsal = true
	defer a.Drain()
	warnings = missingCommands(cfg)
	g, err := a.build(&rehearsed, cfg.Upstreams)
	if err != nil {
		return warnings, err
	}
	defer g.components.Discard()
	for _, server := range []func() (*httpserver.Server, error){g.ClientServer, g.AdminServer} {
		srv, err := server()
		if err != nil {
			return warnings, err
		}
		if srv != nil {
			defer func() { _ = srv.Shutdown(context.Background()) }() // it has served nobody
		}
	}
	if cfg.TransportType == config.StdioType {
		return warnings, nil
	}
	for _, l := range []struct{ key, address string }{{"listen", cfg.Listen()}, {"admin.listen", cfg.Admin.Listen}} {
		taken, err := checkListener(l.address)
		if err != nil {
			return warnings, fmt.Errorf("%s: %w; choose another address%s", l.key, err, privileged(err))
		}
		if taken && cfg.Source(l.key).Set() {
			warnings = append(warnings, l.key+": "+l.address+" is in use; if not by the instance that this configuration is for, choose another address")
		}
	}
	return warnings, nil
}

// checkListener opens and closes a listener. It reports whether the address is taken, which a running instance may have.
func checkListener(address string) (taken bool, err error) {
	if address == field.Off {
		return false, nil
	}
	var ln net.Listener
	if ln, err = httpserver.Listen(address); errors.Is(err, syscall.EADDRINUSE) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return false, ln.Close()
}

// missingCommands returns a warning for each command that cannot be found, with the rules by which it is started.
func missingCommands(cfg *config.Config) (warnings []string) {
	for _, u := range cfg.Upstreams {
		if len(u.Command) == 0 {
			continue
		}
		if err := process.Find(u.Command[0], append(process.BaseEnv(u.EnvInherit), u.Environ()...), u.Cwd); err != nil {
			warnings = append(warnings, fmt.Sprintf("upstreams.%s.command: %v", u.Name, err))
		}
	}
	return warnings
}
