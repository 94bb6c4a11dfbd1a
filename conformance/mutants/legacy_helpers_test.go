package mutants

import (
	"slices"
	"strings"
	"sync"

	"dragoman/conformance/peer"
)

// The faces of mutants.
var (
	legacyFaces = []peer.Face{peer.LegacyHTTP, peer.SSE, peer.LegacyStdio}
	legacyWeb   = []peer.Face{peer.LegacyHTTP, peer.SSE}
	legacyPosts = []peer.Face{peer.LegacyHTTP, peer.LegacyStdio} // where a mutant can answer in place of the server
	oneStream   = []peer.Face{peer.SSE, peer.LegacyStdio}        // where a mutant can send further messages
)

// legacyMutants violate the legacy revisions.
func legacyMutants() []mutant {
	return slices.Concat(lifecycleMutants(), messageMutants(), sessionMutants(), webMutants(), batchMutants(), streamMutants(), stdioMutants(), sseMutants(),
		listMutants(), toolMutants(), resourceMutants(), promptMutants(), logMutants(), progressMutants(), askMutants())
}

// instead replaces the responses to those requests of a method by a result or an error.
func instead(method, answer string, those func(x *exchange) bool) func(*exchange, peer.Message) []string {
	return func(x *exchange, m peer.Message) []string {
		if x.method != method || m.Kind() != peer.IsResponse || those != nil && !those(x) {
			return []string{m.Raw}
		}
		return []string{`{"jsonrpc":"2.0","id":` + string(m.ID) + `,` + answer + `}`}
	}
}

// edited changes the results of a method.
func edited(method string, change func(result peer.Object)) func(*exchange, peer.Message) []string {
	return results(method, func(_ *exchange, r peer.Object) { change(r) })
}

// rewritten replaces text in the answers to a method.
func rewritten(method, old, by string) func(*exchange, peer.Message) []string {
	return func(x *exchange, m peer.Message) []string {
		if x.method != method {
			return []string{m.Raw}
		}
		return []string{strings.ReplaceAll(m.Raw, old, by)}
	}
}

// besides sends further messages with the responses to a method, before or after them.
func besides(method, before, after string) func(*exchange, peer.Message) []string {
	return func(x *exchange, m peer.Message) (out []string) {
		if x.method != method || m.Kind() != peer.IsResponse {
			return []string{m.Raw}
		}
		for _, text := range []string{before, m.Raw, after} {
			if text != "" {
				out = append(out, text)
			}
		}
		return out
	}
}

// callsTool reports whether a request calls a tool.
func callsTool(tool string) func(*exchange) bool {
	return func(x *exchange) bool { return peer.Text(x.asked.Params(), "name") == tool }
}

// noArguments reports whether the arguments of a request are {}.
func noArguments(x *exchange) bool {
	arguments, ok := x.asked.Params()["arguments"].(peer.Object)
	return ok && len(arguments) == 0
}

// without removes a capability of the server by its path.
func without(path ...string) func(*exchange, peer.Message) []string {
	return edited("initialize", func(result peer.Object) {
		in, _ := peer.Get(result, append([]string{"capabilities"}, path[:len(path)-1]...)...).(peer.Object)
		delete(in, path[len(path)-1])
	})
}

// declaring replaces the capabilities of clients.
func declaring(capabilities string) func(*exchange) {
	return func(x *exchange) {
		if x.method != "initialize" {
			return
		}
		x.asked.Params()["capabilities"], _ = peer.Decode(capabilities)
		x.body = peer.Encode(x.asked.Object)
	}
}

// kept is a text that a mutant keeps.
type kept struct {
	mu   sync.Mutex
	text string
}

// swap keeps a text and returns the previous one.
func (k *kept) swap(text string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	last := k.text
	k.text = text
	return last
}

const (
	notFound = `"error":{"code":-32601,"message":"Method not found"}`
	invalid  = `"error":{"code":-32602,"message":"Invalid params"}`
	internal = `"error":{"code":-32603,"message":"Internal error"}`
)
