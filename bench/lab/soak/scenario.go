//go:build linux

package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"dragoman/bench/lab/soak/child"
)

// server is one upstream.
type server struct {
	name      string
	role      child.Role
	isolation string
	// more has further settings as TOML.
	more string
	// command is used instead of the role.
	command []string
	// huge allows answers of megabytes.
	huge bool
}

// silent reports whether clients wait in vain.
func (s *server) silent() bool {
	return slices.Contains([]child.Kind{child.Hang, child.Mute, child.NeverRead}, s.role.Kind)
}

func (s *server) crashes() bool {
	return slices.Contains([]child.Kind{child.CrashStart, child.CrashCall, child.CrashLater}, s.role.Kind)
}

// sure reports whether every call must be answered correctly.
func (s *server) sure() bool { return !s.silent() && !s.crashes() }

// scenario is one Dragoman and its servers. Some of them are always good: their clients must not suffer from the others.
type scenario struct {
	name string
	bad  []server
	good []server
	// requestTime is limits.request_time; empty: a short one.
	requestTime string
}

const modern = true

func role(isModern bool, kind child.Kind) child.Role {
	return child.Role{Modern: isModern, Kind: kind}
}

// scenarios lists all scenarios.
func scenarios() []scenario {
	of := func(kinds ...child.Kind) []server {
		var out []server
		for _, k := range kinds {
			out = append(out, server{name: string(k), role: role(!modern, k)})
		}
		return out
	}
	goods := []server{
		{name: "good", role: role(!modern, child.Good)},
		{name: "good-shared", role: role(!modern, child.Good), isolation: "shared"},
		{name: "good-modern", role: role(modern, child.Good)},
	}
	more := []server{
		{name: "good-spares", role: role(!modern, child.Good), more: "spares = 2"},
		{name: "good-principal", role: role(!modern, child.Good), isolation: "principal", more: idleExit},
		{name: "good-pool", role: role(!modern, child.Good), isolation: "pool(3)", more: idleExit},
		{name: "good-modern-pool", role: role(modern, child.Good), isolation: "pool(2)", more: idleExit},
	}
	all := []scenario{
		{name: "good", bad: more},
		{name: "crash", bad: append(of(child.CrashStart, child.CrashCall, child.CrashLater),
			server{name: "crash-modern", more: idleExit, role: role(modern, child.CrashLater)},
			server{name: "crash-shared", role: role(!modern, child.CrashLater), isolation: "shared"},
			server{name: "crash-pool", role: role(!modern, child.CrashLater), isolation: "pool(3)"})},
		{name: "silent", bad: append(of(child.Hang, child.Mute, child.NeverRead, child.Slow),
			server{name: "hang-modern", more: idleExit, role: role(modern, child.Hang)},
			server{name: "hang-shared", role: role(!modern, child.Hang), isolation: "shared"})},
		{name: "stubborn", bad: append(of(child.IgnoreEOF, child.Stubborn, child.OtherSession), server{name: "stubborn-shared", role: role(!modern, child.Stubborn), isolation: "shared"})},
		{name: "fork", bad: append(of(child.Fork, child.Daemon), server{name: "daemon-modern", more: idleExit, role: role(modern, child.Daemon)})},
		{name: "noisy", requestTime: "15s", bad: append(of(child.Flood, child.Noise, child.Loud, child.Chatty),
			server{name: "flood-modern", more: idleExit, role: role(modern, child.Flood)},
			server{name: "huge", role: role(!modern, child.Good), huge: true})},
	}
	for i := range all {
		all[i].good = goods
	}
	return all
}

// servers returns all upstreams of the scenario.
func (s *scenario) servers() []server { return slices.Concat(s.good, s.bad) }

// The timeouts of a scenario's Dragoman are short, so that they often expire in a run.
const (
	preamble = `listen = "127.0.0.1:0"
merge = "never"
drain_timeout = "3s"
[admin]
listen = "127.0.0.1:0"
[sessions]
idle_ttl = "3s"
max = 100000
[questions]
ttl = "5s"
lease_wait = "20s"
max_parked = 10000
max_parked_per_principal = 10000
[limits]
request_time = %q
`
	requestTime = "10s"
	idleExit    = `idle_exit = "1s"`
	fewTime     = "probe_timeout = \"700ms\"\nstart_timeout = \"1s\""
	each        = `stop_grace = "300ms"
kill_grace = "300ms"
max_sessions = 1000
max_processes = 1000
crash_pause = "2s"
`
)

// config writes the configuration. mark and until go to the children's environment; self is this program.
func (s *scenario) config(self, mark, until string) string {
	var b strings.Builder
	fmt.Fprintf(&b, preamble, cmp.Or(s.requestTime, requestTime))
	for _, up := range s.servers() {
		argv := up.command
		if argv == nil {
			argv = []string{self, child.Word, up.role.String()}
		}
		fmt.Fprintf(&b, "[upstreams.%s]\ncommand = [%s]\n%s", up.name, quoted(argv), each)
		fmt.Fprintf(&b, "env = { %s = %q, %s = %q, GOMAXPROCS = \"1\" }\n", child.RunVariable, mark, child.UntilVariable, until)
		if up.isolation != "" {
			fmt.Fprintf(&b, "isolation = %q\n", up.isolation)
		}
		if up.role.Kind == child.Mute || up.role.Kind == child.CrashStart {
			fmt.Fprintln(&b, fewTime)
		}
		if up.more != "" {
			fmt.Fprintln(&b, up.more)
		}
	}
	return b.String()
}

// quoted writes the items of a TOML array. %q writes plain text as a TOML basic string.
func quoted(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = fmt.Sprintf("%q", w)
	}
	return strings.Join(out, ", ")
}
