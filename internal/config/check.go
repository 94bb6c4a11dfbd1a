package config

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"dragoman/internal/config/value"
	"dragoman/proxy"
)

// check reports what no single key shows: secrets that cannot be read, settings that exclude each other, paths that do
// not exist.
func (l *loader) check() {
	c := l.cfg
	l.checkAuth()
	l.checkTLS()
	l.checkBinding()
	l.checkAudit()
	for _, u := range c.Upstreams {
		l.checkUpstream(u)
	}
	l.checkFallbacks()
}

func (l *loader) checkUpstream(u *Upstream) {
	table := UpstreamsKey + "." + u.Name
	at := func(key string) value.Source { return l.cfg.sources[table+"."+key] }
	l.checkEras(u, table, at)
	l.checkRest(u, table, at)
	l.checkNames(u, table, at)
	hasURL, hasCommand := at(UrlKey).Set(), at(CommandKey).Set()
	if !hasURL && !hasCommand {
		if !l.reported(table) {
			l.fail(&value.Problem{What: "has neither url nor command", Fix: "write one of the two"}, table, l.cfg.sources[table], "")
		}
		return
	}
	if hasURL && hasCommand {
		l.fail(&value.Problem{What: fmt.Sprintf("excludes url (%s)", at(UrlKey)), Fix: "keep one of the two"}, table+"."+CommandKey, at(CommandKey), "")
		return
	}
	if hasCommand {
		l.checkCommand(u, table, at)
		return
	}
	if _, _, socket := u.Socket(); socket {
		if u.Transport != Auto && u.Transport != stdioName {
			l.fail(&value.Problem{What: u.Transport + " needs an http or https url: a socket is spoken to in lines", Fix: "write auto or stdio, or remove it"}, table+".transport", at("transport"), "")
		}
		l.misplaced(u, table, socketKind)
		return
	}
	if u.Transport == stdioName {
		l.fail(&value.Problem{What: "stdio needs a command, not a url", Fix: "write auto, http, sse or rest"}, table+".transport", at("transport"), "")
	}
	l.misplaced(u, table, UrlKey)
	l.checkAccess(u, table, at)
	l.checkForward(u, table, at)
	if err := value.CheckRoots(u.CAFile); err != nil {
		l.fail(err, table+".ca_file", at("ca_file"), "")
	}
}

// checkEras reports settings that leave no revision to speak.
func (l *loader) checkEras(u *Upstream, table string, at func(string) value.Source) {
	allowed := u.Allowed()
	switch {
	case len(allowed.Versions()) == 0:
		l.fail(&value.Problem{What: fmt.Sprintf("contradicts %s.era (%s): no revision of %s is %s", table, at("era"), erasKey, u.Era), Fix: "keep one of the two"},
			table+"."+erasKey, at(erasKey), "")
	case u.Transport == "sse" && len(allowed.Legacy()) == 0:
		key := erasKey
		if !at(erasKey).Set() {
			key = "era"
		}
		l.fail(&value.Problem{What: fmt.Sprintf("excludes every legacy revision, but %s.transport (%s) is sse, which is legacy", table, at("transport")), Fix: "change one of the two"},
			table+"."+key, at(key), "")
	}
}

func (l *loader) checkCommand(u *Upstream, table string, at func(string) value.Source) {
	if len(u.Command) == 0 || u.Command[0] == "" {
		l.fail(&value.Problem{What: "names no program", Fix: `write a list such as ["npx", "-y", "PACKAGE"]`}, table+"."+CommandKey, at(CommandKey), "")
	}
	if u.Transport != Auto && u.Transport != stdioName {
		l.fail(&value.Problem{What: fmt.Sprintf("%s needs a url, not a command", u.Transport), Fix: "write auto or stdio, or remove it"}, table+".transport", at("transport"), "")
	}
	l.misplaced(u, table, CommandKey)
	l.checkProcesses(u, table, at)
	l.readEnvFile(u, table+".env_file", at("env_file"))
	if u.Cwd == "" {
		return
	}
	if info, err := os.Stat(u.Cwd); err != nil || !info.IsDir() {
		l.fail(&value.Problem{What: fmt.Sprintf("%q is not a directory", value.Shorten(u.Cwd)), Fix: "create it, or remove the key"}, table+".cwd", at("cwd"), "")
	}
}

// checkProcesses reports numbers of children that exceed max_processes.
func (l *loader) checkProcesses(u *Upstream, table string, at func(string) value.Source) {
	exceeds := func(key string, n int) {
		if n > u.MaxProcesses {
			l.fail(&value.Problem{What: fmt.Sprintf("%d children are more than %s.max_processes allows, %d", n, table, u.MaxProcesses), Fix: "change one of the two"},
				table+"."+key, at(key), "")
		}
	}
	exceeds("max_processes_per_principal", u.MaxProcessesPerPrincipal)
	exceeds("spares", u.Spares)
	_, n := u.Isolated()
	exceeds("isolation", n)
}

// socketKind is the kind of an upstream whose url is a socket, see [Upstream.Socket]. Other kinds are named after their
// key, url or command.
const socketKind = "socket"

// misplaced reports settings that belong to upstreams of another kind. It accepts defaults, which print writes for
// every upstream.
func (l *loader) misplaced(u *Upstream, table, kind string) {
	report := func(needs, key string, from value.Source) {
		if needs == UrlKey && kind == socketKind {
			needs = "n http or https url"
		} else {
			needs = " " + needs
		}
		l.fail(&value.Problem{What: "only concerns an upstream with a" + needs, Fix: "remove it"}, key, from, "")
	}
	for i := range l.below {
		row := &l.below[i]
		if row.needs == "" || row.needs == kind {
			continue
		}
		key := table + "." + row.Key
		switch row.Key {
		case HeadersKey:
			for _, h := range u.Headers {
				report(row.needs, key, l.cfg.sources[key+"."+value.KeyText([]string{strings.ToLower(h.Name)})])
			}
		case ForwardKey:
			for _, f := range u.Forward {
				report(row.needs, key, l.cfg.sources[key+"."+value.KeyText([]string{strings.ToLower(f.From)})])
			}
		case EnvKey:
			for _, v := range u.Env {
				report(row.needs, key, l.cfg.sources[key+"."+value.KeyText([]string{v.Name})])
			}
		default:
			standard := row.field(&Upstream{})
			if err := standard.Set(value.Word(row.std)); err == nil && row.field(u).Text() != standard.Text() {
				report(row.needs, key, l.cfg.sources[key])
			}
		}
	}
}

// CheckServe reports what keeps `dragoman serve` from starting with a configuration that is valid in itself. The error
// is a [value.ConfigErrors].
func (c *Config) CheckServe() error {
	var errs value.ConfigErrors
	add := func(key, what, fix string) {
		errs = append(errs, &value.ConfigError{Source: c.Source(key), Key: key, Problem: what, Fix: fix})
	}
	if len(c.Upstreams) == 0 {
		add(UpstreamsKey, "no upstream is configured, there is nothing to serve", "give a URL, or a COMMAND after --, or write upstreams.NAME.url into the file")
	}
	if !proxy.IsLoopbackHost(c.Service.Host) && !c.Security.AllowAnonymous && !c.Authenticates() {
		add(listenKey, c.Listen()+" is not loopback and nobody is asked who he is: anyone on the network could use the upstream",
			"listen on 127.0.0.1, or ask for credentials ("+apiKeysKey+", security.jwt, tls.client_auth), or set "+anonymousKey+" = true (--allow-anonymous) if something before it authenticates")
	}
	if c.TransportType == stdioType {
		add(transportKey, "is STDIO, but `dragoman serve` speaks HTTP to its clients", "run `dragoman stdio`, or write HTTP")
	}
	if c.sameListener() {
		add(adminKey, "is the address of the main listener, too", "choose another port, 0 for any free one, or off")
	}
	if len(errs) == 0 {
		return nil
	}
	value.SortErrors(errs)
	return errs
}

// sameListener reports whether both listeners use the same port of the same interface.
func (c *Config) sameListener() bool {
	host, port, err := net.SplitHostPort(c.Admin.Listen)
	if err != nil || port == "0" || port != fmt.Sprint(c.Service.Port) {
		return false
	}
	return host == c.Service.Host || unspecified(host) || unspecified(c.Service.Host)
}

func unspecified(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsUnspecified()
}

// Remarks returns what a valid configuration cannot be used for. A configuration without a file is not complete, and
// whether it can be served is not checked.
func (c *Config) Remarks(complete bool) []string {
	var list []string
	if err := c.CheckServe(); complete && err != nil {
		list = append(list, "`dragoman serve` would refuse this: "+err.Error())
	}
	return list
}
