package mutants

import (
	"slices"
	"strings"
	"sync"

	"dragoman/conformance/peer"
)

// Where mutants of several faces are tried.
var (
	legacyFaces = []peer.Face{peer.LegacyHTTP, peer.SSE, peer.LegacyStdio}
	legacyWeb   = []peer.Face{peer.LegacyHTTP, peer.SSE}
	legacyPosts = []peer.Face{peer.LegacyHTTP, peer.LegacyStdio} // where a mutant can answer in the server's place
	oneStream   = []peer.Face{peer.SSE, peer.LegacyStdio}        // where a mutant can say more than it is asked
)

// legacyMutants break what the legacy revisions demand.
func legacyMutants() []mutant {
	return slices.Concat(lifecycleMutants(), messageMutants(), sessionMutants(), webMutants(), batchMutants(), streamMutants(), stdioMutants(), sseMutants(),
		listMutants(), toolMutants(), resourceMutants(), promptMutants(), logMutants(), progressMutants(), askMutants())
}

// instead answers the requests of a method, if they are those, with a result or an error in place of the server's.
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
	return func(x *exchange, m peer.Message) []string {
		if x.method != method || m.Result() == nil {
			return []string{m.Raw}
		}
		change(m.Result())
		return []string{peer.Encode(m.Object)}
	}
}

// toldOf changes the notifications and questions of a method; what change gives nil for is lost.
func toldOf(method string, change func(m peer.Message) []string) func(*exchange, peer.Message) []string {
	return func(_ *exchange, m peer.Message) []string {
		if m.Method != method {
			return []string{m.Raw}
		}
		return change(m)
	}
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

// besides says more with the answers to a method: before or after them.
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

// callsTool tells whether a request is the call of a tool.
func callsTool(tool string) func(*exchange) bool {
	return func(x *exchange) bool { return peer.Text(x.asked.Params(), "name") == tool }
}

// noArguments tells whether a request has arguments that are {}.
func noArguments(x *exchange) bool {
	arguments, ok := x.asked.Params()["arguments"].(peer.Object)
	return ok && len(arguments) == 0
}

// without drops a capability of the server's, by its path.
func without(path ...string) func(*exchange, peer.Message) []string {
	return edited("initialize", func(result peer.Object) {
		in, _ := peer.Get(result, append([]string{"capabilities"}, path[:len(path)-1]...)...).(peer.Object)
		delete(in, path[len(path)-1])
	})
}

// declaring has clients declare more than they do.
func declaring(capabilities string) func(*exchange) {
	return func(x *exchange) {
		if x.method != "initialize" {
			return
		}
		x.asked.Params()["capabilities"], _ = peer.Decode(capabilities)
		x.body = peer.Encode(x.asked.Object)
	}
}

// kept is one thing that a mutant keeps.
type kept struct {
	mu   sync.Mutex
	text string
}

// swap keeps a text and gives the one before.
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
