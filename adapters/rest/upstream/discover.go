package upstream

import (
	"bytes"
	"context"
	"errors"
	"os"
	"time"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/httpcall"
	"dragoman/adapters/httpd/httpclient"
	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

const (
	// profileTime is how long the features found of a service are valid while its version stays the same.
	profileTime = time.Minute
	// healthTime is the timeout of a GET /health by Healthy, and healthFresh how long its answer is valid.
	healthTime  = 2 * time.Second
	healthFresh = 5 * time.Second
	healthBody  = 1 << 20 // bytes of the answer
)

// profile describes a service.
type profile struct {
	info     []byte // serverInfo, raw JSON
	features *features
}

// features lists the abilities of a service besides tools. They are immutable once they are part of a profile.
type features struct {
	at                           time.Time
	resources, prompts, complete bool
}

// identify remembers name and version of a service. A change of either discards the features.
func (u *Upstream) identify(service, version []byte) {
	if len(service) == 0 {
		service = []byte(u.host.Authority())
	}
	if len(version) == 0 {
		version = []byte("0.0.0")
	}
	info := wire.Object([]wire.Change{{Key: "name", Value: wire.AppendText(nil, service)}, {Key: "version", Value: wire.AppendText(nil, version)}})
	if old := u.profile.Load(); old == nil || !bytes.Equal(old.info, info) {
		u.profile.Store(&profile{info: info})
	}
}

// discover returns the steps of server/discover: the health, the tools, and the other features unless they are known.
func (c *call) discover() *step {
	return c.get("/health", func(c *call, r *reply) (wire.Message, *step, error) {
		if err := r.unavailable(); err != nil {
			c.u.note("the service says that it is unavailable", err.Message)
			return wire.Message{}, nil, err
		}
		return wire.Message{}, c.get("/tools", (*call).readTools), nil
	})
}

// get makes the GET of an endpoint.
func (c *call) get(endpoint string, handle answerHandler) *step {
	return &step{verb: "GET", endpoint: endpoint, target: c.u.target(endpoint), handle: handle}
}

// readTools reads the tools, which identify the service and show that it speaks the envelope.
func (c *call) readTools(r *reply) (wire.Message, *step, error) {
	_, tools, m, err := c.toolList(r)
	if err != nil {
		return m, nil, err
	}
	if tools == nil {
		return m, nil, proxy.Errf(proxy.BadAnswer, "the service refused GET /tools: %s", m.Text(m.ErrorText))
	}
	if x := c.u.profile.Load().features; x != nil && time.Since(x.at) < profileTime {
		return c.discoverResult(x)
	}
	return wire.Message{}, c.get("/resources", func(c *call, r *reply) (wire.Message, *step, error) {
		x := &features{at: time.Now(), resources: r.has("resources")}
		return wire.Message{}, c.get("/prompts", func(c *call, r *reply) (wire.Message, *step, error) {
			x.prompts = r.has("prompts")
			if !x.prompts && !x.resources { // nothing has arguments that could be completed
				return c.discoverResult(x)
			}
			s := c.get("/complete", func(c *call, r *reply) (wire.Message, *step, error) {
				x.complete = !r.isMissing() && wire.Get(r.raw, r.body, "success").Present()
				return c.discoverResult(x)
			})
			s.verb, s.body = "POST", []byte("{}") // invalid on purpose: only whether an envelope answers it matters
			return wire.Message{}, s, nil
		}), nil
	}), nil
}

// has reports whether an answer shows that the service has such a list. A list that is not available at the moment counts.
func (r *reply) has(list string) bool {
	if r.isMissing() || !r.body.IsObject(r.raw) {
		return false
	}
	data := r.body
	if success := wire.Get(r.raw, r.body, "success"); success.Present() {
		if string(success.Of(r.raw)) != "true" {
			return r.status != 400
		}
		data = wire.Get(r.raw, r.body, "data")
	}
	at := wire.Get(r.raw, data, list)
	return at.Present() && r.raw[at.From] == '['
}

// discoverResult makes the DiscoverResult.
func (c *call) discoverResult(x *features) (wire.Message, *step, error) {
	c.u.profile.Store(&profile{info: c.u.profile.Load().info, features: x})
	offered := func(known bool) []byte {
		if known {
			return []byte("{}")
		}
		return nil
	}
	b := c.result(resultRoom)
	b.Add("supportedVersions", append(wire.AppendText([]byte{'['}, rules.ModernVersion), ']'))
	b.Add("capabilities", wire.Object([]wire.Change{{Key: "tools", Value: offered(true)}, {Key: "logging", Value: offered(true)},
		{Key: "resources", Value: offered(x.resources)}, {Key: "prompts", Value: offered(x.prompts)}, {Key: "completions", Value: offered(x.complete)}}))
	forbidCaching(b)
	return c.completed(b)
}

// unavailable returns the error of an answer to GET /health (seed 000, HealthResponse) that reports an unavailable service. A service
// without that endpoint, or with answers of its own format, counts as healthy.
func (r *reply) unavailable() *proxy.Error {
	status := string(wire.Get(r.raw, r.body, "status").Text(r.raw))
	switch {
	case r.status == fasthttp.StatusServiceUnavailable || status == "unavailable" || status == "unhealthy":
		err := proxy.Errf(proxy.Overloaded, "the service says that it is unavailable%s (GET /health, HTTP %d)", r.unavailableDependencies(), r.status)
		err.RetryAfter, err.Cause = r.retryIn, statusError(fasthttp.StatusServiceUnavailable)
		return err
	case r.isMissing(), r.status < 300:
		return nil
	}
	return r.foreign("")
}

// unavailableDependencies names the unavailable dependencies of a service, as far as its answer has them.
func (r *reply) unavailableDependencies() string {
	text := ""
	if e := wire.Get(r.raw, r.body, "error").Text(r.raw); len(e) > 0 {
		text = ": " + httpcall.Printable(e)
	}
	n := 0
	for k, d := range wire.Members(r.raw, wire.Get(r.raw, r.body, "dependencies")) {
		if !wire.Get(r.raw, d, "status").Is(r.raw, "unavailable") {
			continue
		}
		if n++; n > 5 {
			return text + ", and others"
		}
		text += map[bool]string{true: ": ", false: ", "}[text == ""] + httpcall.Printable(k.Text(r.raw))
		if why := wire.Get(r.raw, d, "error").Text(r.raw); len(why) > 0 {
			text += " (" + httpcall.Printable(why) + ")"
		}
	}
	return text
}

// health is the last known state of a service.
type health struct {
	at        time.Time
	told, why string // the service is not healthy, as it is told to any caller and to the operator; empty: it is healthy
}

// note records the health that a call has shown. An empty why means healthy; told has nothing that the service wrote to the caller.
func (u *Upstream) note(told, why string) {
	if old := u.health.Load(); old != nil && old.why == why && time.Since(old.at) < healthFresh/2 {
		return // known already
	}
	u.health.Store(&health{at: time.Now(), told: told, why: why})
}

// Healthy reports whether the service is healthy, and if not, why: told to any caller, and to the operator. It goes by the calls of the last five seconds, else by
// GET /health, for which it waits up to two seconds. Concurrent callers get the state that was known before.
func (u *Upstream) Healthy() (ok bool, told, why string) {
	h := u.health.Load()
	if (h == nil || time.Since(h.at) >= healthFresh) && u.checking.TryLock() {
		defer u.checking.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), healthTime)
		defer cancel()
		h = &health{at: time.Now()}
		if err := u.Check(ctx); err != nil {
			h.told, h.why = err.Message, err.Message
		}
		u.health.Store(h)
	}
	if h == nil {
		return false, "the service has not been asked yet", ""
	}
	return h.why == "", h.told, h.why
}

// Check sends GET /health and waits for the answer until ctx ends.
func (u *Upstream) Check(ctx context.Context) *proxy.Error {
	req := httpcall.NewRequest(fasthttp.MethodGet, u.target("/health"), nil)
	defer req.Release()
	_ = req.Set("Accept", "application/json")
	r := reply{step: &step{verb: "GET", endpoint: "/health"}}
	ans, err := u.host.Send(ctx, req)
	if err == nil {
		defer ans.Close()
		defer context.AfterFunc(ctx, ans.Abort)()
		err = r.healthOf(ctx, ans)
	}
	switch {
	case err == nil:
	case ctx.Err() != nil, errors.Is(err, os.ErrDeadlineExceeded):
		return proxy.Errf(proxy.UpstreamTimeout, "the service did not answer GET /health in time")
	default:
		return proxy.AsError(httpcall.Fault(err))
	}
	r.parse()
	r.hide(ctx, u.host)
	return r.unavailable()
}

func (r *reply) healthOf(ctx context.Context, ans httpclient.Response) error {
	until, _ := ctx.Deadline()
	status, h, err := ans.Head(until)
	if err != nil {
		return err
	}
	r.status, r.retryIn = status, httpcall.RetryAfter(h)
	r.raw, err = ans.Body(r.raw, healthBody, until)
	return err
}
