// Package calls runs the tools and prompts of the demonstration server: those that answer at once, those that take time
// and send notifications (Runner.Run), and those that ask their client (Runner.Interview). It knows no tool.
package calls

import (
	"sync"
	"sync/atomic"

	"dragoman/adapters/rules"
	"dragoman/conformance/everything/arguments"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// MaxRunning is how many calls may run at a time; further ones are refused with proxy.Overloaded.
const MaxRunning = 4096

// Runner runs the calls of a server. It is safe for concurrent use.
type Runner struct {
	result    func(era proxy.Era, kind, members string) []byte
	seal      seal         // of requestState
	cancelled atomic.Int64 // calls stopped while running

	mu      sync.Mutex
	closed  bool
	running map[*Call]struct{}
	workers sync.WaitGroup
}

// New returns a runner. result makes a result of its resultType and its other members, raw JSON without the braces.
func New(result func(era proxy.Era, kind, members string) []byte) *Runner {
	return &Runner{result: result, seal: newSeal(), running: map[*Call]struct{}{}}
}

// Stopped returns how many calls were stopped while they ran.
func (r *Runner) Stopped() int64 { return r.cancelled.Load() }

// Query returns the query of a request.
func (r *Runner) Query(ex *proxy.Exchange, m wire.Message) (Query, *proxy.Error) {
	args, refusal := arguments.Of(&m)
	return Query{runner: r, level: len(rules.LogLevels), Msg: m, Client: ex.Client, caller: ex.Caller, Args: args}, refusal
}

// Interview runs the script for a call.
func (r *Runner) Interview(ex *proxy.Exchange, q Query, x *Script) (proxy.Replies, error) {
	if q.Client.Era == proxy.Modern {
		return proxy.Reply(q.Message(q.askModern(x))), nil
	}
	return r.Run(ex, q, func(c *Call) Outcome { return c.askLegacy(x) })
}

// Run starts a call with its own goroutine.
func (r *Runner) Run(ex *proxy.Exchange, q Query, run func(*Call) Outcome) (proxy.Replies, error) {
	c := &Call{
		Query: q, ex: ex, token: tokenOf(&q.Msg),
		queue: make(chan wire.Message, queueSize), stop: make(chan struct{}), done: make(chan struct{}),
	}
	if err := r.start(c); err != nil {
		return nil, err
	}
	ex.Attach(c)
	go c.work(run) // ends after its answer, or with Close, the exchange or the server
	return c, nil
}

// start registers the call as running.
func (r *Runner) start(c *Call) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return shutDown()
	}
	if len(r.running) >= MaxRunning {
		return proxy.Errf(proxy.Overloaded, "%d calls are running, which is the limit", MaxRunning)
	}
	r.running[c] = struct{}{}
	r.workers.Add(1)
	return nil
}

func (r *Runner) forget(c *Call) {
	r.mu.Lock()
	delete(r.running, c)
	r.mu.Unlock()
	r.workers.Done()
}

// Check returns an error once close was called.
func (r *Runner) Check() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return shutDown()
	}
	return nil
}

// Close stops all calls and waits for their end. Their Replies then return proxy.ShuttingDown.
func (r *Runner) Close() {
	r.mu.Lock()
	r.closed = true
	for c := range r.running {
		c.end(shutDown())
	}
	r.mu.Unlock()
	r.workers.Wait()
}

func shutDown() error { return proxy.Errf(proxy.ShuttingDown, "the server is shutting down") }
