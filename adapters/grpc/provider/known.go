package provider

import (
	"strings"
	"sync"

	"dragoman/adapters/grpc/providerpb"
)

// maxKnown bounds the definitions of one kind that are remembered.
const maxKnown = 10_000

// tool is what calls of a tool need of its definition.
type tool struct {
	asks          bool
	input, output []byte // schemas, raw JSON; output may be nil
}

// prompt is what getting a prompt needs of its definition.
type prompt struct {
	asks                  bool
	arguments             []byte // schema, raw JSON
	template, description string
}

// known is what the lists of a provider have shown. Callers may be listed different definitions of one name: the last one read counts.
type known struct {
	mu        sync.Mutex
	tools     map[string]*tool
	prompts   map[string]*prompt
	resources map[string]bool   // whether reading it may ask
	all       bool              // resources and asking are all that there are
	asking    map[string]bool   // what the URIs of templates that may ask begin with
	faults    map[string]string // of definitions that were left out, by kind and name
}

// put adds to a map that does not grow without bound.
func put[V any](m *map[string]V, key string, v V) {
	if *m == nil || len(*m) >= maxKnown {
		*m = make(map[string]V)
	}
	(*m)[key] = v
}

func (k *known) addTool(name string, of *tool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	put(&k.tools, name, of)
}

func (k *known) addPrompt(name string, of *prompt) {
	k.mu.Lock()
	defer k.mu.Unlock()
	put(&k.prompts, name, of)
}

func (k *known) addResource(uri string, asks bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	put(&k.resources, uri, asks)
}

// addAsking adds a template whose resources may ask: by the text before its first expression.
func (k *known) addAsking(template string) {
	prefix, _, _ := strings.Cut(template, "{")
	k.mu.Lock()
	defer k.mu.Unlock()
	put(&k.asking, prefix, true)
}

// fault remembers why a definition is left out, nil if it is not, and reports whether there is a reason that is new.
func (k *known) fault(key string, err error) (news bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err == nil {
		delete(k.faults, key)
		return false
	}
	if k.faults[key] == err.Error() {
		return false
	}
	put(&k.faults, key, err.Error())
	return true
}

// complete says that all resources and templates are known.
func (k *known) complete() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all = true
}

// forget forgets what a list has shown, which has changed.
func (k *known) forget(kind providerpb.Kind) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch kind {
	case providerpb.Kind_KIND_TOOL:
		k.tools = nil
	case providerpb.Kind_KIND_PROMPT:
		k.prompts = nil
	case providerpb.Kind_KIND_RESOURCE, providerpb.Kind_KIND_RESOURCE_TEMPLATE:
		k.resources, k.asking, k.all = nil, nil, false
	}
}

func (k *known) tool(name string) *tool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.tools[name]
}

func (k *known) prompt(name string) *prompt {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.prompts[name]
}

// resource reports whether reading a resource may ask; known is false if no list has it.
func (k *known) resource(uri string) (asks, known bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if asks, known = k.resources[uri]; known {
		return asks, true
	}
	for prefix := range k.asking {
		if strings.HasPrefix(uri, prefix) {
			return true, true
		}
	}
	return false, k.all
}
