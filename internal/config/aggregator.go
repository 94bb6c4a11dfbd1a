package config

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"dragoman/internal/config/field"
	"dragoman/internal/config/value"
)

// AggregatorConfig concerns servers that are registered while Dragoman runs (seed 004). They come from outside the configuration, so that it
// says what they may be.
type AggregatorConfig struct {
	// Keys are the API keys of those who register servers, in the order in which they were named. Without any, and without
	// scopes, nobody can.
	Keys []*AggregatorKey
	// ViewerScope and OperatorScope are the scopes by which tokens of security.jwt have a role; "" (default): none has it.
	ViewerScope, OperatorScope string
	// Commands are the programs that a registered server may be, as they are named in a command; empty (default): none.
	Commands []string
	// Unpinned lets registered commands fetch packages without a fixed version. Default false.
	Unpinned bool
	// Networks are the networks, besides the public ones, in which registered addresses may lie; empty (default): none.
	Networks []string
	// Secrets are the references to secrets that registrations may have, "env:NAME" and "file:/path"; a trailing * matches any
	// ending. Empty (default): none.
	Secrets []string
	// SealKey encrypts what registrations hold, which may then have secrets of their own; empty (default): they may refer to
	// secrets only. FormerKey opens what was encrypted before, and is then encrypted anew.
	SealKey, FormerKey value.Secret
}

// The roles of those who register servers. A viewer changes nothing.
const (
	Viewer   = "viewer"
	Operator = "operator"
)

// AggregatorKey is somebody who sees or registers servers.
type AggregatorKey struct {
	// Name is as in [APIKey]. It stands in the audit trail.
	Name string
	// Hashes are as in [APIKey].
	Hashes []string
	// Role is [Viewer] (default) or [Operator].
	Role string
	// Expires is when the keys become invalid; zero: never.
	Expires time.Time
}

// On reports whether servers can be registered.
func (a *AggregatorConfig) On() bool {
	return len(a.Keys) > 0 || a.ViewerScope != "" || a.OperatorScope != ""
}

// aggregatorTable begins the keys of an [AggregatorConfig].
const aggregatorTable = "aggregator."

func (c *Config) aggregatorKeys() []setting {
	a := &c.Aggregator
	scope := func(at *string) field.Field {
		return field.Text{At: at, Empty: true, What: "a scope", Check: checkScope}
	}
	return []setting{
		{key: aggregatorTable + "keys", doc: "API keys of those who register servers while Dragoman runs, one table each: hashes (of `dragoman key new`), role, expires; without any the API is not served",
			open: entries[AggregatorKey]{&a.Keys, func(k *AggregatorKey) string { return k.Name }, newAggregatorKey}.table(aggregatorKeyParts)},
		{key: aggregatorTable + "viewer_scope", std: "", doc: "scope of tokens whose bearers may see registered servers", field: scope(&a.ViewerScope)},
		{key: aggregatorTable + "operator_scope", std: "", doc: "scope of tokens whose bearers may register servers", field: scope(&a.OperatorScope)},
		{key: aggregatorTable + "commands", std: "", doc: "programs that a registered server may be, as its command names them; empty: none, only addresses can be registered",
			field: field.List{At: &a.Commands, Check: checkProgram, What: `a list such as ["npx", "/usr/local/bin/server"]`, Most: maxList, Commas: true}},
		{key: aggregatorTable + "unpinned", std: "false", doc: "whether registered commands may fetch packages without a fixed version, as `npx -y server` does",
			field: field.Bool{At: &a.Unpinned}},
		{key: aggregatorTable + "networks", std: "", doc: "networks, besides the public ones, in which registered addresses may lie",
			field: field.List{At: &a.Networks, Check: field.CheckNetwork, What: "a list of addresses and networks such as 10.0.0.0/8", Most: maxList, Commas: true}},
		{key: aggregatorTable + "secrets", std: "", doc: "secrets that registrations may refer to, env:NAME or file:/path; a trailing * stands for any ending",
			field: field.List{At: &a.Secrets, Check: checkReference, What: `a list such as ["env:GITHUB_*", "file:/run/secrets/*"]`, Most: maxList, Commas: true}},
		{key: aggregatorTable + "seal_key", std: "", doc: "key that encrypts registrations at rest; empty: their headers and variables may only refer to secrets", secret: true,
			field: field.Key{At: &a.SealKey, Least: leastSealKey}},
		{key: aggregatorTable + "former_seal_key", std: "", doc: "seal_key before the present one: what it has encrypted is encrypted anew", secret: true,
			field: field.Key{At: &a.FormerKey, Least: leastSealKey}},
	}
}

// leastSealKey is the least length of a key that encrypts registrations, in bytes.
const leastSealKey = 32

func newAggregatorKey(name string) (*AggregatorKey, error) {
	return &AggregatorKey{Name: name, Role: Viewer}, checkKeyName(name)
}

func aggregatorKeyParts(k *AggregatorKey) []setting {
	return []setting{
		{key: "hashes", doc: "SHA-256 hashes of the keys", field: hashList(&k.Hashes)},
		{key: "role", doc: "viewer or operator", field: field.Enum{At: &k.Role, Values: []string{Viewer, Operator}}},
		{key: "expires", doc: "when the keys expire", field: field.Time{At: &k.Expires}},
	}
}

// checkProgram checks the name of a program: one that is looked up, or an absolute path.
func checkProgram(name string) error {
	if err := field.CheckArgument(name); err != nil {
		return err
	}
	if strings.ContainsAny(name, `/\`) && !filepath.IsAbs(name) {
		return &value.Problem{What: fmt.Sprintf("%q is a relative path, which is another program in another directory", value.Shorten(name)), Fix: "write a name such as npx, or an absolute path"}
	}
	return nil
}

// checkReference checks a pattern of references to secrets.
func checkReference(item string) error {
	name, env := strings.CutPrefix(item, "env:")
	path, file := strings.CutPrefix(item, "file:")
	begin := strings.TrimSuffix(path, "*")
	if env && value.IsVariable(strings.TrimSuffix(name, "*")) || file && filepath.IsAbs(begin) && len(begin) > 1 && path == filepath.Clean(path) {
		return nil
	}
	return &value.Problem{What: fmt.Sprintf("%q names no secret", value.Shorten(item)), Fix: `write "env:NAME" or "file:/path", without . and .. in the path; a * at the end stands for any ending, of at least one character before it`}
}

// checkAggregator reports settings that let nobody register servers. reported tells whether something below a key is wrong already.
func (c *Config) checkAggregator(fail func(key string, from value.Source, what, fix string), reported func(table string) bool) {
	a := &c.Aggregator
	report := func(key, what, fix string) {
		fail(aggregatorTable+key, c.sources[aggregatorTable+key], what, fix)
	}
	for key, scope := range map[string]string{"viewer_scope": a.ViewerScope, "operator_scope": a.OperatorScope} {
		if scope != "" && c.Security.Auth.JWT.Issuer == "" {
			report(key, "is set, but no issuer: no token would be taken", "set "+jwtTable+"issuer")
		}
	}
	if a.OperatorScope != "" && a.OperatorScope == a.ViewerScope {
		report("operator_scope", "is viewer_scope as well: whoever may see could change", "write two scopes")
	}
	if a.FormerKey.Reveal() != "" && a.SealKey.Reveal() == "" {
		report("former_seal_key", "is set, but not seal_key: nothing would be encrypted anew", "set "+aggregatorTable+"seal_key")
	}
	seen := map[string]string{}
	for _, k := range a.Keys {
		table := "keys." + value.KeyPart(k.Name)
		if len(k.Hashes) == 0 && !reported(aggregatorTable+table) {
			report(table, "has no hashes", "add what `dragoman key new "+k.Name+" --role "+k.Role+"` prints")
		}
		for _, h := range k.Hashes {
			if other := seen[strings.ToLower(h)]; other != "" {
				report(table+".hashes", fmt.Sprintf("the same key is %s's: nobody could say whose it is", other), "make another with `dragoman key new`")
			}
			seen[strings.ToLower(h)] = k.Name
		}
	}
	if a.On() && c.Admin.Listen == field.Off {
		report("keys", "is set, but "+adminKey+" is off: the API is served there", "give the admin listener an address")
	}
}
