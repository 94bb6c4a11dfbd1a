package era

import (
	"maps"
	"sync"

	"dragoman/adapters/era/translate"
	"dragoman/proxy/wire"
)

// toolIndex caches facts about the tools of one server that calls need. The zero value is ready.
type toolIndex struct {
	mu    sync.RWMutex
	tools map[string]toolFacts
}

// toolFacts are a tool's mirrored parameters, and whether it only runs as a task (execution.taskSupport of 2025-11-25).
type toolFacts struct {
	mirrored []translate.MirroredParam
	task     bool
}

const (
	maxTools    = 100_000 // tools cached for one server
	maxToolName = 1024    // bytes; tools with longer names are not cached
)

// learn records the tools of a tools/list result.
func (x *toolIndex) learn(m *wire.Message) {
	tools := map[string]toolFacts{}
	for _, s := range wire.Items(m.Raw, wire.Get(m.Raw, m.Result, "tools")) {
		if len(tools) == maxTools {
			break
		}
		name := string(wire.Get(m.Raw, s, "name").Text(m.Raw))
		found, _ := translate.MirroredParams(s.Of(m.Raw))
		tools[name] = toolFacts{found, wire.Path(m.Raw, s, "execution", "taskSupport").Is(m.Raw, "required")}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.tools == nil || len(x.tools)+len(tools) > maxTools {
		x.tools = make(map[string]toolFacts, len(tools))
	}
	maps.Copy(x.tools, tools)
}

// get returns the facts about a tool, and whether it is known.
func (x *toolIndex) get(tool string) (found toolFacts, known bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	found, known = x.tools[tool]
	return found, known
}

// getOrNone returns the facts about a tool. A tool that is not in the list is recorded without any, so that the list is fetched only once
// for it.
func (x *toolIndex) getOrNone(tool string) toolFacts {
	x.mu.Lock()
	defer x.mu.Unlock()
	found, known := x.tools[tool]
	if !known && len(tool) <= maxToolName {
		if x.tools == nil || len(x.tools) >= maxTools {
			x.tools = map[string]toolFacts{}
		}
		x.tools[tool] = toolFacts{}
	}
	return found
}

func (x *toolIndex) forget() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.tools = nil
}
