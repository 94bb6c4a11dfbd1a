package era

import (
	"dragoman/adapters/era/probe"
	"dragoman/adapters/era/sessions"
	"dragoman/adapters/era/translate"
	"dragoman/adapters/rules"
	"dragoman/proxy/wire"
)

// Setting is the configuration that, with the server profile, determines what clients lose at a server.
type Setting struct {
	Stdio      bool // the server is a child process
	Isolation  sessions.Isolation
	DriveTasks bool          // tasks are driven for clients of the other era
	DeclareAll bool          // a legacy server is promised that it may ask anything
	AsksOnCall bool          // the legacy server's questions name their call
	Clients    rules.Allowed // revisions that the listener serves
}

// Degradation is one feature that some clients receive in another form than from the server itself, or not at all.
type Degradation struct {
	Clients string `json:"clients"` // modern, legacy, all, or legacy before a revision
	Feature string `json:"feature"`
	What    string `json:"what"` // what they receive instead, in words
}

// server is the input of the conditions in the table.
type server struct {
	Setting
	modern, legacy bool // the era that the server speaks; modern if it speaks both
	sse            bool
	caps           []byte
}

// can reports whether the server declared a capability; true if its capabilities are unknown.
func (s *server) can(path ...string) bool {
	return s.caps == nil || wire.Path(s.caps, wire.Whole(s.caps), path...).Present()
}

// asks reports whether a legacy server may ask, in calls that have a session to themselves.
func (s *server) asks() bool {
	return s.Isolation.Asks(s.DeclareAll)
}

func (s *server) notifies() bool {
	return s.can("tools", "listChanged") || s.can("prompts", "listChanged") || s.can("resources", "listChanged") || s.can("resources", "subscribe")
}

// loss is a row of the table: a loss of clients of one era at a server of the other, or of all clients.
type loss struct {
	clients string // modern, legacy or all
	before  string // of legacy clients, only for revisions before this one; empty: for all
	feature string
	what    string
	when    func(s *server) bool // nil: always
}

// losses is the table of losses, first those by translation. Features that pass unchanged are not listed.
var losses = []loss{
	{"modern", "", "lists", "may differ from session to session: every list goes out as private and stale at once (ttlMs 0)", nil},
	{"modern", "", "questions", "come as input_required under keys made here; a call that may be asked has a session with the server to itself while it lasts",
		func(s *server) bool { return s.asks() && !s.AsksOnCall && !s.Stdio }},
	{"modern", "", "questions", "come as input_required under keys made here; a call that may be asked has a process to itself while it lasts",
		func(s *server) bool { return s.asks() && !s.AsksOnCall && s.Stdio }},
	{"modern", "", "questions", "come as input_required under keys made here", func(s *server) bool { return s.asks() && s.AsksOnCall }},
	{"modern", "", "url elicitation", "error -32042 becomes input_required, and the call is sent again once the client has answered", func(s *server) bool { return s.asks() }},
	{"modern", "", "tasks", "tools that can only run as a task are hidden", func(s *server) bool { return s.can("tasks") && !s.DriveTasks }},
	{"modern", "", "tasks", "run to their end within the call; they cannot be listed or fetched later", func(s *server) bool { return s.can("tasks") && s.DriveTasks }},
	{"modern", "", "logs", "a message outside the stream of a call is delivered only while one call could have caused it", func(s *server) bool { return s.can("logging") }},
	{"modern", "", "errors", "-32002 becomes -32602, and so does -32601 for a name that the server does not know; a code that means something else in 2026-07-28 becomes -32603 with data.originalCode", nil},

	{"legacy", "", "structured results", "structuredContent that is no object becomes text; an outputSchema that is none of an object is left out", func(s *server) bool { return s.can("tools") }},
	{"legacy", rules.Version20250618, "structured results", "structuredContent and links become text", func(s *server) bool { return s.can("tools") }},
	{"legacy", rules.Version20250326, "content", "audio becomes text", nil},
	{"legacy", rules.Version20251125, "url elicitation", "is not asked", nil},
	{"legacy", rules.Version20251125, "form elicitation", "forms with a choice of several values are not asked", nil},
	{"legacy", rules.Version20250618, "elicitation", "is not asked at all", nil},
	{"legacy", rules.Version20251125, "sampling", "with tools is not asked", nil},
	{"legacy", "", "progress", "values that do not rise from one round of questions to the next are left out", nil},
	{"legacy", "", "change notices", "what changed while the connection to the server was down is not told one by one: all that is subscribed is told to have changed", (*server).notifies},
	{"legacy", "", "tasks", "are not offered", func(s *server) bool { return s.can("extensions", translate.TasksExtension) && !s.DriveTasks }},
	{"legacy", "", "tasks", "run to their end within the call; the methods of tasks are not offered", func(s *server) bool { return s.can("extensions", translate.TasksExtension) && s.DriveTasks }},
	{"legacy", "", "cache hints", "ttlMs and cacheScope are left out", nil},

	// Losses that do not depend on the era of the client.
	{"all", "", "logs", "a log message of the child names no call; where calls that want logs overlap it is dropped", func(s *server) bool { return s.Stdio && s.modern && s.can("logging") }},
	{"all", "", "isolation", "all clients use one session of the server: what it remembers of one the others may see", func(s *server) bool { return s.Isolation.Sharing == sessions.Shared && s.legacy }},
	{"all", "", "isolation", "the clients of one caller use one session of the server: what it remembers of one the others may see", func(s *server) bool { return s.Isolation.Sharing == sessions.ByPrincipal && s.legacy }},
	{"all", "", "isolation", "any of several sessions takes any call: what the server remembers of one call the next may not find, and others may see", func(s *server) bool { return s.Isolation.Sharing == sessions.Pooled && s.legacy }},
	{"all", "", "change notices", "come from one of the processes", func(s *server) bool {
		return s.Isolation.Sharing == sessions.Pooled && s.Stdio && s.modern && s.notifies()
	}},
	{"all", "", "questions", "the server cannot ask: nobody could tell whom it means", func(s *server) bool { return s.Isolation.Anonymous() && s.legacy }},
	{"all", "", "questions", "the server cannot ask: nobody could tell which client it means; with declare = \"all\" it can", func(s *server) bool { return s.Isolation.Sharing == sessions.ByPrincipal && !s.DeclareAll && s.legacy }},
	{"all", "", "questions", "of one caller's calls in which the server may ask only one runs at a time", func(s *server) bool { return s.Isolation.Sharing == sessions.ByPrincipal && s.DeclareAll && s.legacy }},
	{"all", "", "tasks", "are not offered", func(s *server) bool { return s.Isolation.Mixed() && s.legacy && s.can("tasks") && !s.DriveTasks }},
	{"all", "", "logs", "messages of calls that overlap are dropped", func(s *server) bool { return s.Isolation.Mixed() && s.legacy && s.can("logging") }},
	{"all", "", "resumption", "the transport of the server has none: a call is lost with its connection", func(s *server) bool { return s.sse }},
}

// Degrades lists what clients lose at the server: first by translation, then in general. Clients that the listener does
// not serve are left out. Until a modern server has been probed for its legacy side ([probe.Profile.Checked]), it counts
// as having none.
func Degrades(v *probe.Profile, setting Setting) []Degradation {
	_, caps := v.Identity()
	s := &server{Setting: setting, modern: v.Modern, legacy: v.Legacy && !v.Modern, sse: v.SSE && !v.Modern, caps: caps}
	out := []Degradation{}
	served := setting.Clients.Legacy()
	for _, l := range losses {
		clients := l.clients
		switch {
		case clients == "modern" && (v.Modern || len(setting.Clients.Modern()) == 0), // no translation, or no such client
			clients == "legacy" && (v.Legacy && !v.Bare || !v.Modern || len(served) == 0),
			l.before != "" && served[len(served)-1] >= l.before,
			l.when != nil && !l.when(s):
			continue
		case l.before != "":
			clients += " before " + l.before
		}
		out = append(out, Degradation{Clients: clients, Feature: l.feature, What: l.what})
	}
	return out
}
