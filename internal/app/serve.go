package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"dragoman/adapters/httpd/httpserver"
	"dragoman/adapters/httpd/netpoll"
	"dragoman/adapters/stdio/downstream"
	"dragoman/adapters/stdio/supervisor"
	"dragoman/adapters/transport"
	"dragoman/internal/app/logging"
	"dragoman/internal/app/tuning"
	"dragoman/internal/config"
	"dragoman/internal/config/field"
	"dragoman/proxy"
)

// RunServe serves HTTP clients until ctx ends, then drains.
func RunServe(ctx context.Context, cfg *config.Config, std Streams) error {
	out, err := logging.Open(cfg.Log.Level, cfg.Log.Format, std.Err, true)
	if err != nil {
		return err
	}
	defer out.Close()
	log := out.Logger
	warn(cfg, log)
	ln, err := httpserver.Listen(cfg.Listen()) // first, since a second Dragoman at this address would start everything else in vain
	if err != nil {
		return fmt.Errorf("%w; choose another address with --listen HOST:PORT, port 0 for any free one%s", err, privileged(err))
	}
	defer ln.Close() // Serve closes it; this is for errors before that
	a := newApp(log, out)
	a.registry.Open(cfg)
	if cfg, err = a.registry.With(ctx, cfg); err != nil {
		log.Error().Err(err).Msg("the servers of the configuration are served alone for now")
	}
	g, err := a.open(cfg, cfg.Upstreams)
	if err != nil {
		a.registry.Close()
		return err
	}
	defer g.App.Close()
	defer tuning.TrimMemory()()
	if cfg.KeepAwake {
		stir, rest := tuning.PinScheduler()
		defer rest()
		g.noteRequest = stir
	}
	log = g.Log // its level can change
	if ln, err = SecureListener(&cfg.TLS, ln, log, g.Certified); err != nil {
		return err
	}
	ops, opsLn, err := g.openAdmin(log)
	if err != nil {
		return err
	}
	if ops != nil {
		defer opsLn.Close() // likewise
	}
	failed := make(chan error, 4)
	g.Probe(ctx, failed) // in parallel with what follows: a child process takes longer to start
	clients, err := g.ClientServer()
	if err != nil {
		return err
	}
	g.registry.Listens(ln, opsLn)
	banner(out.Out, cfg, ln.Addr(), opsLn, log)
	go g.watchState(ctx)
	go func() { failed <- clients.Serve(ln) }() // ends with Shutdown
	if ops != nil {
		go func() { failed <- ops.Serve(opsLn) }() // ends with Shutdown
	}
	err = g.App.Run(ctx, clients, failed)
	g = g.App.Current.Load() // a reload may have replaced it
	servers := []*httpserver.Server{clients}
	if ops != nil {
		servers = append(servers, ops)
	}
	return g.ShutDown(err, servers)
}

// Run serves until ctx ends or failed has an error. It reloads the configuration on SIGHUP, and when its files have
// changed.
func (a *App) Run(ctx context.Context, srv *httpserver.Server, failed <-chan error) error {
	changed, hup := make(chan struct{}), make(chan os.Signal, 1)
	within, cancel := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		watchFiles(within, func() *config.Config { return a.Current.Load().Cfg }, changed)
	}()
	defer func() { cancel(); <-watched }()
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	inTerminal := logging.Terminal(os.Stdin)
	for {
		select {
		case <-ctx.Done():
			a.Log.Info().Dur("limit", a.Current.Load().Cfg.DrainTimeout).Msg("draining; a second signal ends at once")
			return nil
		case err := <-failed:
			return err
		case <-hup:
			if inTerminal && !logging.Terminal(os.Stdin) { // the terminal was closed: the original meaning of SIGHUP
				a.Log.Info().Msg("the terminal is gone; draining")
				return nil
			}
			a.Reload(ctx, srv, "SIGHUP")
		case <-changed:
			a.Reload(ctx, srv, "a file has changed")
		case c := <-a.registry.Changes():
			a.register(ctx, srv, c)
		}
	}
}

// fewFiles is the number of open files below which clients and servers are likely to run out of connections.
const fewFiles = 4096

// warn logs what is ignored in the configuration, and what is risky.
func warn(cfg *config.Config, log zerolog.Logger) {
	for _, w := range cfg.Warnings {
		log.Warn().Msg(w)
	}
	for _, u := range cfg.Upstreams {
		if text := isolationCost(u); text != "" {
			log.Warn().Str("upstream", u.Name).Str("isolation", u.Isolation).Msg("if this server is legacy, " + text)
		}
	}
	if files := netpoll.MaxOpenFiles(); files > 0 && files < fewFiles {
		log.Warn().Int("open_files", files).Msg("the process may have few files open, which bounds clients and connections to servers; raise ulimit -n (LimitNOFILE= in systemd)")
	}
	if !proxy.IsLoopbackHost(cfg.Service.Host) && !cfg.Authenticates() {
		log.Warn().Str("listen", cfg.Listen()).Msg("everybody who reaches this address may use the upstream: security.allow_anonymous is on")
	}
}

// isolationCost says what the isolation of an upstream gives up at a legacy server. It is empty for the strictest
// isolation.
func isolationCost(u *config.Upstream) string {
	const dropped = "log messages of overlapping calls are dropped, and it cannot ask anybody"
	switch kind, _ := u.Isolated(); kind {
	case field.SharedByAll:
		return "all clients use one session of it: what it remembers of one client the others may see, " + dropped
	case field.Pooled:
		return "any of its sessions takes any call: what one call leaves behind the next may not find and others may see, " + dropped
	case field.PerPrincipal:
		if u.Declare == "all" {
			return "the clients of one caller use one session of it: what it remembers of one the others may see, and calls in which it may ask run one after the other"
		}
		return "the clients of one caller use one session of it: what it remembers of one the others may see, " + dropped + ` (declare = "all" lets it ask)`
	}
	return ""
}

// openAdmin opens the admin listener. If the default port is taken, as by another Dragoman on the host, it uses any
// free one. A configured port must be free.
func (g *Generation) openAdmin(log zerolog.Logger) (*httpserver.Server, net.Listener, error) {
	srv, err := g.AdminServer()
	if err != nil || srv == nil {
		return nil, nil, err
	}
	ln, err := httpserver.Listen(g.Cfg.Admin.Listen)
	if errors.Is(err, syscall.EADDRINUSE) && !g.Cfg.Source("admin.listen").Set() {
		host, _, _ := net.SplitHostPort(g.Cfg.Admin.Listen)
		taken := g.Cfg.Admin.Listen
		if ln, err = httpserver.Listen(net.JoinHostPort(host, "0")); err == nil {
			log.Warn().Str("taken", taken).Str("admin", ln.Addr().String()).Msg("the admin port is taken; another one is used")
		}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("admin listener: %w; choose another address with --admin HOST:PORT, or --admin off%s", err, privileged(err))
	}
	return srv, ln, nil
}

// privileged returns what helps if the system refuses a port to this user, as the rest of a sentence.
func privileged(err error) string {
	if errors.Is(err, syscall.EACCES) {
		return ", or give the process the right to open this one (on Linux CAP_NET_BIND_SERVICE)"
	}
	return ""
}

// ShutDown lets requests in flight finish within the drain timeout, and returns why serving ended.
func (g *Generation) ShutDown(why error, servers []*httpserver.Server) error {
	g.service.ShutDown()
	defer g.service.Stop()
	if d := g.Cfg.DrainDelay; d > 0 && why == nil {
		g.Log.Info().Dur("delay", d).Msg("not ready any more; requests are still taken")
		for _, s := range servers {
			s.DisableKeepAlives()
		}
		delay := time.NewTimer(d) // a second signal ends the process
		select {
		case <-delay.C:
		case <-g.draining.Done():
		}
		delay.Stop()
	}
	ctx, cancel := context.WithTimeout(context.Background(), g.Cfg.DrainTimeout)
	defer cancel()
	g.Drain()
	for _, s := range servers {
		if err := s.Shutdown(ctx); err != nil {
			g.Log.Warn().Err(err).Msg("not everything ended in time")
		}
	}
	return userError(why)
}

// endpoints returns the addresses of a transport at the main listener: that of all servers, and if there are several
// those of groups and of each.
func endpoints(base, path string, c *config.Config) []string {
	all := []string{base + path}
	for _, g := range c.Groups {
		all = append(all, base+proxy.ServerPath(proxy.GroupTarget(g.Name))+path)
	}
	for _, u := range c.Upstreams {
		if len(c.Upstreams) > 1 || c.Merged() {
			all = append(all, base+proxy.ServerPath(u.Name)+path)
		}
	}
	return all
}

// banner prints what is served where on a terminal; elsewhere it logs one line.
func banner(w io.Writer, cfg *config.Config, addr net.Addr, admin net.Listener, log zerolog.Logger) {
	base := "http://" + addr.String()
	if cfg.TLS.CertFile != "" {
		base = "https://" + addr.String()
	}
	served := cfg.Served()
	if !logging.Terminal(w) {
		log.Info().Func(func(e *zerolog.Event) { listening(e, cfg, base, admin) }).Msg("listening")
		return
	}
	what := "every revision from 2025-03-26"
	if !served.All() {
		what = strings.Join(served.Versions(), ", ")
	}
	_, _ = fmt.Fprintf(w, "\n  dragoman serves\n\n")
	for _, at := range endpoints(base, "/mcp", cfg) {
		_, _ = fmt.Fprintf(w, "    %-28s streamable HTTP, %s\n", at, what)
	}
	if len(served.Legacy()) > 0 {
		for _, at := range endpoints(base, "/sse", cfg) {
			_, _ = fmt.Fprintf(w, "    %-28s HTTP+SSE 2024-11-05\n", at)
		}
	}
	if admin != nil {
		_, _ = fmt.Fprintf(w, "    %-28s health, readiness, metrics, log level, configuration\n", "http://"+admin.Addr().String())
	}
	_, _ = fmt.Fprintf(w, "\n  in front of\n\n")
	for _, u := range cfg.Upstreams {
		_, _ = fmt.Fprintf(w, "    %-28s %s\n", u.Name, u.Target())
	}
	_, _ = fmt.Fprintln(w)
}

// listening adds the addresses to a line of the log: of the listener, and of each endpoint as text for one server, as a list for several.
func listening(e *zerolog.Event, cfg *config.Config, base string, admin net.Listener) {
	e.Str("listen", base)
	addresses := func(key, path string) {
		all := endpoints(base, path, cfg)
		if len(all) == 1 {
			e.Str(key, all[0])
			return
		}
		e.Strs(key, all)
	}
	addresses("mcp", "/mcp")
	served := cfg.Served()
	if len(served.Legacy()) > 0 {
		addresses("sse", "/sse")
	}
	if !served.All() {
		e.Strs("eras", served.Versions())
	}
	if admin != nil {
		e.Str("admin", "http://"+admin.Addr().String())
	}
}

// Streams are the standard streams of a command.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// stdioInFlight bounds the concurrent requests of the one client of a stdio listener.
const stdioInFlight = 256

// RunStdio serves the client on std.In and std.Out until the client closes them or ctx ends.
func RunStdio(ctx context.Context, cfg *config.Config, std Streams) error {
	out, err := logging.Open(cfg.Log.Level, cfg.Log.Format, std.Err, false)
	if err != nil {
		return err
	}
	defer out.Close()
	attended := *cfg
	attended.Attended = true
	attended.Upstreams = nil
	for _, up := range cfg.Upstreams {
		attended.Upstreams = append(attended.Upstreams, withClientEnv(cfg, up, os.Environ(), out.Logger))
	}
	g, err := newApp(out.Logger, out).open(&attended, attended.Upstreams)
	if err != nil {
		return err
	}
	defer g.Close()
	defer tuning.TrimMemory()()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	fatal := make(chan error, 1)
	if child := g.onlyChild(); child == nil {
		g.Probe(ctx, fatal)
	} else if err := child.Prepare(ctx); errors.Is(err, transport.ErrFatal) { // the client's first message shows which era it needs
		return userError(err)
	} else if g.Targets.Pinned() {
		g.Targets.ReadLists()
	}
	go g.watchState(ctx)
	done := make(chan error, 1)
	go func() { done <- g.ServeStdio(ctx, std) }()
	select {
	case err = <-done:
		return err
	case err = <-fatal:
		cancel(err)
		<-done
		return userError(err)
	}
}

// onlyChild returns the only upstream if it is a child process, else nil.
func (g *Generation) onlyChild() *supervisor.Dialer {
	if len(g.Targets.All) == 1 && !g.Cfg.Merged() {
		return g.Targets.All[0].Dialer
	}
	return nil
}

// ServeStdio serves one client on std.In and std.Out until the client closes them or ctx ends.
func (g *Generation) ServeStdio(ctx context.Context, std Streams) error {
	return (&downstream.Server{Handle: g.Handle, Store: g.shared.sessions, In: std.In, Out: std.Out, MaxLine: g.Cfg.Limits.Line,
		Cap: g.Cfg.Limits.RequestTime, InFlight: stdioInFlight, Note: logging.Notes(g.Log)}).Serve(ctx)
}
