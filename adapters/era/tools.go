package era

import (
	"sync"

	"dragoman/adapters/era/translate"
	"dragoman/proxy/wire"
)

// toolIndex remembers, of the tools of one server, what a call has to know. The zero value is ready.
type toolIndex struct {
	mu    sync.RWMutex
	tools map[string]toolFacts
}

// toolFacts are what is to be mirrored, and whether the tool runs as a task only (execution.taskSupport of 2025-11-25).
type toolFacts struct {
	mirrored []translate.MirroredParam
	task     bool
}

const (
	maxTools    = 100_000 // remembered of one server
	maxToolName = 1024    // bytes; longer names are not remembered
)

// learn reads the tools of a tools/list result. A tool whose annotations break the rules (2026-07-28 streamable HTTP,
// Schema Extension) is answered false by valid: an HTTP client must not use it.
func (x *toolIndex) learn(m *wire.Message) {
	tools := map[string]toolFacts{}
	for _, s := range wire.Items(m.Raw, wire.Get(m.Raw, m.Result, "tools")) {
		name := string(wire.Get(m.Raw, s, "name").Text(m.Raw))
		found, _ := translate.MirroredParams(s.Of(m.Raw))
		tools[name] = toolFacts{found, wire.Path(m.Raw, s, "execution", "taskSupport").Is(m.Raw, "required")}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.tools == nil || len(x.tools)+len(tools) > maxTools {
		x.tools = make(map[string]toolFacts, len(tools))
	}
	for name, found := range tools {
		x.tools[name] = found
	}
}

// params returns what a tool mirrors, and whether the tool is known at all.
func (x *toolIndex) params(tool string) ([]translate.MirroredParam, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	found, known := x.tools[tool]
	return found.mirrored, known
}

// onlyAsTask reports whether a tool is known to run as a task only.
func (x *toolIndex) onlyAsTask(tool string) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.tools[tool].task
}

// paramsOrNone returns what a tool mirrors; one that the list does not have is remembered as mirroring nothing, so that the
// list is fetched once for it.
func (x *toolIndex) paramsOrNone(tool string) []translate.MirroredParam {
	x.mu.Lock()
	defer x.mu.Unlock()
	found, known := x.tools[tool]
	if !known && len(tool) <= maxToolName {
		if x.tools == nil || len(x.tools) >= maxTools {
			x.tools = map[string]toolFacts{}
		}
		x.tools[tool] = toolFacts{}
	}
	return found.mirrored
}

func (x *toolIndex) forget() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.tools = nil
}
