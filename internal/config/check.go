package config

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strings"

	"dragoman/adapters/oauth"
	"dragoman/internal/config/field"
	"dragoman/internal/config/source"
	"dragoman/internal/config/value"
	"dragoman/proxy"
)

// check reports what no single key shows: secrets that cannot be read, settings that exclude each other, paths that do
// not exist.
func (l *loader) check() {
	l.checkAuth()
	l.checkTLS()
	l.checkBinding()
	l.checkAudit()
	l.checkEvents()
	l.cfg.checkAggregator(l.fail, l.reported)
	l.cfg.checkCatalogue(l.fail)
	l.checkRoots(l.cfg.Tracing.CAFile, tracingCAKey)
	l.checkRoots(l.cfg.PolicyHook.CAFile, hookCAKey)
	l.checkRoots(l.cfg.Classification.CAFile, classificationCAKey)
	standard := new(Upstream).keys()
	l.standard(standard)
	for _, u := range l.cfg.Upstreams {
		upstreamCheck{l, u, UpstreamsKey + "." + u.Name, standard}.check()
	}
	l.checkFallbacks()
	l.cfg.checkGroups(l.fail)
	l.cfg.checkContexts(l.fail)
	l.cfg.checkSearch(l.fail)
	l.checkRoots(l.cfg.Search.CAFile, embeddingsTable+"ca_file")
	l.cfg.checkClassification(l.fail)
}

// checkAuth reports settings that would let in nobody, or everybody.
func (l *loader) checkAuth() {
	c := l.cfg
	auth := &c.Security.Auth
	switch from := c.sources[apiKeysKey]; {
	case c.Security.APIKeysEnabled && len(auth.Keys) == 0:
		l.fail(apiKeysKey, from, "is on, but there is no key: nobody could get in", "add what `dragoman key new NAME` prints")
	case !c.Security.APIKeysEnabled && len(auth.Keys) > 0 && !from.Set():
		l.fail(apiKeysKey, from, "is off, although there are keys: everybody would get in", "write "+apiKeysKey+" = true, or false if that is meant")
	}
	seen, rates := map[string]string{}, map[string]*APIKey{}
	for _, k := range auth.Keys {
		if other := rates[k.Caller()]; other != nil && other.Rate != k.Rate {
			key := "security.api_keys." + value.KeyPart(k.Name) + ".rate_limit"
			l.fail(key, c.sources[key], "differs from that of "+other.Name+", which is the same principal", "write the same rate for both, or other principals")
		}
		rates[k.Caller()] = k
		table := "security.api_keys." + value.KeyPart(k.Name)
		if len(k.Hashes) == 0 && !l.reported(table) {
			l.fail(table, c.sources[table+".scopes"], "has no hashes", "add what `dragoman key new "+k.Name+"` prints")
		}
		for _, h := range k.Hashes {
			if other := seen[strings.ToLower(h)]; other != "" {
				l.fail(table+".hashes", c.sources[table+".hashes"], fmt.Sprintf("the same key is %s's: nobody could say whose it is", other), "make another with `dragoman key new`")
			}
			seen[strings.ToLower(h)] = k.Name
		}
	}
	l.checkJWT(&auth.JWT)
}

// checkBinding reports rules about callers that are not asked for credentials, or that no credential names: such rules would
// bind nobody.
func (l *loader) checkBinding() {
	c := l.cfg
	if c.Authenticates() {
		l.checkGrants()
		return
	}
	const fix = "ask for credentials (" + apiKeysKey + ", " + jwtTable + "issuer or " + tlsTable + "client_auth), or "
	for _, u := range c.Upstreams {
		table := UpstreamsKey + "." + u.Name + "."
		for _, r := range u.Scopes {
			key := table + scopesKey + "." + value.KeyPart(r.About)
			l.fail(key, c.sources[key], "needs scopes, but nobody is asked who he is: everybody would get in without", fix+"remove the rule")
		}
		for _, g := range u.Access {
			key := table + accessKey + "." + value.KeyPart(g.Principal)
			if g.Principal == "*" || l.reported(key) {
				continue
			}
			var from value.Source
			for _, p := range grantParts(g) {
				from = cmp.Or(from, c.sources[key+"."+p.key])
			}
			l.fail(key, from, "is about one principal, but nobody is asked who he is: it would bind nobody", fix+`write "*", which is everybody`)
		}
	}
}

func (l *loader) checkJWT(j *JWTConfig) {
	fail := func(key, what, fix string) { l.fail(jwtTable+key, l.cfg.sources[jwtTable+key], what, fix) }
	if j.Issuer == "" {
		for key, set := range map[string]bool{"resource": j.Resource != "", "audience": len(j.Audience) > 0, "jwks_url": j.JWKSURL != "", "jwks_file": j.JWKSFile != "", scopesKey: len(j.Scopes) > 0} {
			if set {
				fail(key, "is set, but no issuer: no token would be taken", "set "+jwtTable+"issuer")
			}
		}
		return
	}
	if j.Resource == "" {
		fail("issuer", "is set, but not "+jwtTable+"resource: clients could not be told for whom to get a token", `write the URL of the listener as clients know it, such as "https://mcp.example.com"`)
	}
	if u, err := url.Parse(j.Resource); err == nil && (u.RawQuery != "" || strings.HasSuffix(u.Path, "/mcp")) {
		fail("resource", "is not what stands before the paths", "leave out /mcp and the query")
	}
	if j.JWKSURL != "" && j.JWKSFile != "" {
		fail("jwks_file", "excludes jwks_url", "keep one of the two")
	}
	if len(j.Algorithms) == 0 || len(j.Types) == 0 {
		fail("algorithms", "no token would be taken without algorithms and types", "remove the empty list")
	}
	l.checkRoots(j.CAFile, jwtTable+"ca_file")
	if j.JWKSFile != "" {
		keys, err := oauth.NewKeys(oauth.KeysOptions{Issuer: j.Issuer, File: j.JWKSFile})
		if err != nil {
			fail("jwks_file", fmt.Sprintf("%q cannot be used: %v", value.Shorten(j.JWKSFile), value.Reason(err)), "write the issuer's keys as a JSON Web Key Set")
			return
		}
		keys.Close()
	}
}

// checkTLS reports files that cannot be used, and settings without others that they need.
func (l *loader) checkTLS() {
	t := &l.cfg.TLS
	fail := func(key, what, fix string) { l.fail(tlsTable+key, l.cfg.sources[tlsTable+key], what, fix) }
	switch {
	case t.CertFile != "" && t.KeyFile == "":
		fail("cert_file", "needs key_file too", "set "+tlsTable+"key_file")
	case t.KeyFile != "" && t.CertFile == "":
		fail("key_file", "needs cert_file too", "set "+tlsTable+"cert_file")
	case t.CertFile != "":
		if _, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile); err != nil {
			fail("cert_file", fmt.Sprintf("cannot be used with key_file: %v", value.Reason(err)), "check both: PEM, and the key of this certificate")
		}
		if info, err := os.Stat(t.KeyFile); err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o007 != 0 {
			l.warn("%skey_file: everybody on this machine may read or write %q (mode %04o); chmod 600 it", tlsTable, t.KeyFile, info.Mode().Perm())
		}
	}
	if t.ClientAuth == ClientAuthNone {
		without := func(key string, set bool) {
			if set {
				fail(key, "is set, but client_auth is none: nobody is asked for a certificate", "write "+tlsTable+"client_auth = \"required\" or \"optional\"")
			}
		}
		without("client_ca_file", t.ClientCAFile != "")
		without("client_scopes", len(t.ClientScopes) > 0)
		return
	}
	if t.CertFile == "" {
		fail("client_auth", "needs TLS", "set "+tlsTable+"cert_file and "+tlsTable+"key_file")
	}
	if t.ClientCAFile == "" {
		fail("client_auth", "needs client_ca_file: without it the system's roots would count, and with them anybody", "set "+tlsTable+"client_ca_file")
	}
	l.checkRoots(t.ClientCAFile, tlsTable+"client_ca_file")
}

// checkRoots reports a ca_file that cannot be used, and notes its content.
func (l *loader) checkRoots(path, key string) {
	if err := value.CheckRoots(path); err != nil {
		l.failWith(err, key, l.cfg.sources[key])
		return
	}
	if pem, err := os.ReadFile(path); err == nil {
		l.cfg.roots = append(l.cfg.roots, key+" "+string(pem))
	}
}

// checkFallbacks reports fallbacks that do not exist, and cycles of fallbacks.
func (l *loader) checkFallbacks() {
	c := l.cfg
	for _, u := range c.Upstreams {
		key := upstreamKey(u.Name, fallbackKey)
		way := []string{u.Name}
		for at := u; at != nil && at.Health.Fallback != "" && len(way) <= len(c.Upstreams); {
			next := c.Upstream(at.Health.Fallback)
			way = append(way, at.Health.Fallback)
			if next == nil && at == u {
				l.fail(key, c.sources[key], fmt.Sprintf("%q is no upstream", at.Health.Fallback), "write the NAME of another one")
			}
			if next == u {
				l.fail(key, c.sources[key], "leads back to itself: "+strings.Join(way, " -> "), "let the last one have no fallback")
				break
			}
			at = next
		}
	}
}

// upstreamCheck checks one upstream.
type upstreamCheck struct {
	l        *loader
	u        *Upstream
	table    string    // of its keys
	standard []setting // the same keys with their defaults
}

// at returns the source of a key of the upstream.
func (c upstreamCheck) at(key string) value.Source { return c.l.cfg.sources[c.table+"."+key] }

func (c upstreamCheck) fail(key, what, fix string) { c.l.fail(c.table+"."+key, c.at(key), what, fix) }

func (c upstreamCheck) check() {
	c.checkEras()
	c.checkNames()
	hasURL, hasCommand := c.at(UrlKey).Set(), c.at(CommandKey).Set()
	_, _, socket := c.u.Socket()
	lines := c.u.Transport == Auto || c.u.Transport == stdioName
	switch {
	case !hasURL && !hasCommand:
		if !c.l.reported(c.table) {
			c.l.fail(c.table, c.l.cfg.sources[c.table], "has neither url nor command", "write one of the two")
		}
	case hasURL && hasCommand:
		c.fail(CommandKey, fmt.Sprintf("excludes url (%s)", c.at(UrlKey)), "keep one of the two")
	case hasCommand:
		c.checkCommand(lines)
	case socket:
		if !lines {
			c.fail("transport", c.u.Transport+" needs an http or https url: a socket is spoken to in lines", "write auto or stdio, or remove it")
		}
		c.misplaced(socketKind)
		c.checkSocket()
	default:
		if c.u.Transport == stdioName {
			c.fail("transport", "stdio needs a command, not a url", "write auto, http, sse or rest")
		}
		problems, kinds := c.u.grpcProblems()
		c.misplaced(append(kinds, UrlKey)...)
		for _, p := range problems {
			c.fail(p.key, p.what, p.fix)
		}
		c.checkAccess()
		c.checkForward()
		c.l.checkRoots(c.u.CAFile, c.table+".ca_file")
	}
}

// checkEras reports settings that leave no revision to speak, or none that the transport can carry.
func (c upstreamCheck) checkEras() {
	allowed, transport := c.u.Allowed(), fmt.Sprintf("%s.transport (%s) is ", c.table, c.at("transport"))
	key := erasKey
	if !c.at(erasKey).Set() {
		key = "era"
	}
	switch {
	case len(allowed.Versions()) == 0:
		c.fail(erasKey, fmt.Sprintf("contradicts %s.era (%s): no revision of %s is %s", c.table, c.at("era"), erasKey, c.u.Era), "keep one of the two")
	case c.u.Transport == "sse" && len(allowed.Legacy()) == 0:
		c.fail(key, "excludes every legacy revision, but "+transport+"sse, which is legacy", "change one of the two")
	case c.u.Transport == RestName && len(allowed.Modern()) == 0:
		c.fail(key, "excludes every modern revision, but "+transport+"rest, whose services are spoken to as modern servers", "write auto or modern, or remove it")
	}
}

// checkNames reports names that two things would have.
func (c upstreamCheck) checkNames() {
	r := c.u.renames()
	for _, t := range []struct {
		key   string
		names map[string]string
	}{{toolsKey, r.Tools}, {promptsKey, r.Prompts}, {resourcesKey, r.Resources}} {
		of := make(map[string]string, len(t.names))
		for own, theirs := range t.names {
			if other, twice := of[theirs]; twice {
				c.fail(t.key, value.Quote(min(own, other))+" and "+value.Quote(max(own, other))+" would both be called "+value.Quote(theirs), "rename one of them otherwise")
			}
			of[theirs] = own
		}
	}
}

// checkCommand checks a child process. lines says that the transport is one for it.
func (c upstreamCheck) checkCommand(lines bool) {
	u := c.u
	if len(u.Command) == 0 || u.Command[0] == "" {
		c.fail(CommandKey, "names no program", `write a list such as ["npx", "-y", "PACKAGE"]`)
	}
	if !lines {
		c.fail("transport", u.Transport+" needs a url, not a command", "write auto or stdio, or remove it")
	}
	c.misplaced(CommandKey)
	_, pool := u.Isolated()
	for _, of := range []struct {
		key string
		n   int
	}{{"max_processes_per_principal", u.MaxProcessesPerPrincipal}, {"spares", u.Spares}, {"isolation", pool}} {
		if of.n > u.MaxProcesses {
			c.fail(of.key, fmt.Sprintf("%d children are more than %s.max_processes allows, %d", of.n, c.table, u.MaxProcesses), "change one of the two")
		}
	}
	c.checkSystem(runtime.GOOS)
	c.readEnvFile()
	if u.Cwd != "" && !isDirectory(u.Cwd) {
		c.fail("cwd", fmt.Sprintf("%q is not a directory", value.Shorten(u.Cwd)), "create it, or remove the key")
	}
}

// checkSystem reports settings that another system than Linux does not have.
func (c upstreamCheck) checkSystem(system string) {
	if system == "linux" {
		return
	}
	for _, of := range []struct {
		key string
		set bool
	}{{"user", c.u.User != ""}, {"group", c.u.Group != ""}, {"memory", c.u.Memory != 0}, {"cpus", c.u.CPUs != 0}} {
		if of.set {
			c.fail(of.key, "needs Linux, and this is "+system, "remove it")
		}
	}
}

// readEnvFile reads the upstream's env_file. A relative path is relative to the working directory. Errors name the file
// and the line, never the content.
func (c upstreamCheck) readEnvFile() {
	const key = "env_file"
	if c.u.EnvFile == "" {
		return
	}
	vars, open, err := source.EnvFile(c.u.EnvFile)
	if err != nil {
		c.l.failWith(err, c.table+"."+key, c.at(key))
		return
	}
	c.u.FileEnv = vars
	if open {
		c.l.warn("%s.%s: %q can be read by everybody on this machine; chmod 600 keeps its secrets", c.table, key, value.Shorten(c.u.EnvFile))
	}
}

// socketKind is the kind of an upstream whose url is a socket, see [Upstream.Socket]. Other kinds are named after their
// key, url or command.
const socketKind = "socket"

// checkSocket reports a path that is there and is no socket. One that is not there may come with its server.
func (c upstreamCheck) checkSocket() {
	network, path, _ := c.u.Socket()
	if info, err := os.Stat(path); network == "unix" && err == nil && info.Mode()&os.ModeSocket == 0 {
		c.fail(UrlKey, fmt.Sprintf("%q is not a socket", value.Shorten(path)), "name the socket that the server listens at")
	}
}

// misplaced reports settings that belong to upstreams of another kind. It accepts defaults, which print writes for
// every upstream.
func (c upstreamCheck) misplaced(kinds ...string) {
	for i, row := range c.u.keys() {
		if row.needs == "" || slices.Contains(kinds, row.needs) {
			continue
		}
		what := "only concerns an upstream with a " + row.needs
		if row.needs == UrlKey && kinds[0] == socketKind {
			what = "only concerns an upstream with an http or https url"
		}
		if row.open != nil {
			key := c.table + "." + row.key
			for _, name := range row.open.names() {
				c.l.fail(key, c.l.cfg.sources[row.open.cell(key, name)], what, "remove it")
			}
			continue
		}
		if row.field.Text() != c.standard[i].field.Text() {
			c.fail(row.key, what, "remove it")
		}
	}
}

// checkAccess reports what is missing in the upstream's client credentials.
func (c upstreamCheck) checkAccess() {
	const endpoint = "oauth.token_url"
	o := &c.u.OAuth
	if o.TokenURL == "" {
		for key, set := range map[string]bool{"client_id": o.ClientID != "", "client_secret": o.ClientSecret.Reveal() != ""} {
			if set {
				c.fail("oauth."+key, "is set, but not token_url", "set "+c.table+".oauth.token_url")
			}
		}
		return
	}
	if o.ClientID == "" {
		c.fail(endpoint, "is set, but not client_id", "set "+c.table+".oauth.client_id")
	}
	if c.u.hasHeader("Authorization") {
		c.fail(endpoint, "writes the header Authorization, and so does headers", "keep one of the two")
	}
}

// checkForward reports headers that have several sources, and isolation by which callers would share what the headers
// keep apart.
func (c upstreamCheck) checkForward() {
	u, key := c.u, c.table+"."+forwardKey
	if len(u.Forward) == 0 {
		return
	}
	from := func(x ForwardHeader) value.Source {
		return c.at(forwardKey + "." + value.KeyPart(strings.ToLower(x.From)))
	}
	for i, x := range u.Forward {
		fail := func(by, fix string) {
			c.l.fail(key+"."+value.KeyPart(x.From), from(x), "writes the header "+by, fix)
		}
		if u.hasHeader(x.To) {
			fail(x.To+", and so does "+c.table+"."+headersKey, "keep one of the two")
		}
		if u.OAuth.TokenURL != "" && strings.EqualFold(x.To, "Authorization") {
			fail("Authorization, and so does "+c.table+".oauth", "keep one of the two, or give the client's another name")
		}
		if slices.ContainsFunc(u.Forward[:i], func(o ForwardHeader) bool { return strings.EqualFold(o.To, x.To) }) {
			fail(x.To+", and so does another", "keep one of the two")
		}
	}
	if kind, _ := u.Isolated(); kind == field.Pooled || kind == field.SharedByAll {
		c.fail("isolation", fmt.Sprintf("lets callers share sessions, but %s (%s) shows the upstream who each of them is", key, from(u.Forward[0])),
			"write session or principal, or remove "+forwardKey)
	}
	c.warnForward(key)
}

// warnForward warns of forwarded credentials that are meant for Dragoman.
func (c upstreamCheck) warnForward(key string) {
	s := c.l.cfg.Security
	own := map[string]bool{"x-api-key": s.APIKeysEnabled, "authorization": s.APIKeysEnabled || s.Auth.JWT.Issuer != ""}
	for _, x := range c.u.Forward {
		if own[strings.ToLower(x.From)] {
			c.l.warn("%s passes on %s, by which clients show Dragoman who they are: whoever runs the upstream could use that here, "+
				"and the specification forbids to pass on tokens that were issued for another (2026-07-28 authorization); let clients send the upstream's in a header of its own", key, x.From)
		}
	}
}

// checkServe reports what keeps `dragoman serve` from starting with a configuration that is valid in itself.
func (l *loader) checkServe(opt LoadOptions) {
	c := l.cfg
	if opt.For&OnServe == 0 && (opt.For&OnConfig == 0 || c.TransportType == StdioType) {
		return
	}
	add := func(key, what, fix string) { l.fail(key, c.Source(key), what, fix) }
	switch {
	case len(c.Upstreams) > 0 || c.Aggregator.On() || l.reported(UpstreamsKey) || opt.File == "": // without a file, the command says what is missing
	case opt.For&OnServe != 0:
		add(UpstreamsKey, noUpstream+", there is nothing to serve", fixNoUpstream)
	default:
		l.warn("%s; %s", noUpstream, fixNoUpstream)
	}
	if !proxy.IsLoopbackHost(c.Service.Host) && !c.Security.AllowAnonymous && !c.Authenticates() {
		add(listenKey, c.Listen()+" is not loopback and nobody is asked who he is: anyone on the network could use the upstream",
			"listen on 127.0.0.1, or ask for credentials ("+apiKeysKey+", security.jwt, tls.client_auth), or set "+anonymousKey+" = true (--allow-anonymous) if something before it authenticates")
	}
	if c.TransportType == StdioType {
		add(transportKey, "is STDIO, but `dragoman serve` speaks HTTP to its clients", "run `dragoman stdio`, or write HTTP")
	}
	if c.sameListener() {
		add(adminKey, "is the address of the main listener, too", "choose another port, 0 for any free one, or off")
	}
}

const (
	noUpstream    = "no upstream is configured"
	fixNoUpstream = "give a URL, or a COMMAND after --, or write upstreams.NAME.url into the file"
)

// sameListener reports whether both listeners use the same port of the same interface.
func (c *Config) sameListener() bool {
	host, port, err := net.SplitHostPort(c.Admin.Listen)
	if err != nil || port == "0" || port != fmt.Sprint(c.Service.Port) {
		return false
	}
	own := c.Service.Host
	return host == own || unspecified(host) || unspecified(own) || isLocalhost(host, own) || isLocalhost(own, host)
}

// isLocalhost reports whether name is localhost, which the system may resolve to address.
func isLocalhost(name, address string) bool {
	return name == "localhost" && (address == "127.0.0.1" || address == "::1")
}

func unspecified(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsUnspecified()
}
