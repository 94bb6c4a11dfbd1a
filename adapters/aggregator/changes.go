package aggregator

import (
	"bytes"
	"context"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-json"
	"github.com/valyala/fasthttp"
)

// Bounds of seed 004, BR-001.
const (
	maxName        = 255
	maxDescription = 1000 // characters
)

// Transports are the transports of registered servers.
var Transports = []string{"STDIO", "SSE", "HTTP", "GRPC"}

var serverName = regexp.MustCompile(`^[a-z][a-z0-9_-]*$`)

// mistakes gathers what is wrong with a body.
type mistakes []Mistake

func (m *mistakes) add(text string, where ...string) {
	*m = append(*m, Mistake{Where: append([]string{"body"}, where...), Text: text, Type: "value_error"})
}

func (m mistakes) problem() error {
	if len(m) == 0 {
		return nil
	}
	return &Problem{fasthttp.StatusUnprocessableEntity, []Mistake(m)}
}

// read decodes a body that is a JSON object into to, which has the given members. It reports members of another type, and others.
func read(body []byte, to any, members ...string) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(body, &all); err != nil || all == nil {
		return Wrong("must be a JSON object", "body")
	}
	var wrong mistakes
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !slices.Contains(members, name) {
			wrong.add("is unknown; known are "+strings.Join(members, ", "), name)
			continue
		}
		if bytes.Equal(all[name], []byte("null")) {
			continue // as if it were absent
		}
		one, err := json.Marshal(map[string]json.RawMessage{name: all[name]})
		if err == nil {
			err = json.Unmarshal(one, to)
		}
		if err != nil {
			wrong.add("has the wrong type", name)
		}
	}
	return wrong.problem()
}

// check reports what is wrong with the fields of a server that need nothing else to be judged.
func check(wrong *mistakes, name, description, transport, healthURL string, connection json.RawMessage) {
	switch {
	case name == "":
		wrong.add("is required", "name")
	case len(name) > maxName:
		wrong.add("is longer than 255 characters", "name")
	case !serverName.MatchString(name):
		wrong.add("must match ^[a-z][a-z0-9_-]*$", "name")
	}
	if utf8.RuneCountInString(description) > maxDescription {
		wrong.add("is longer than 1000 characters", "description")
	}
	if !slices.Contains(Transports, transport) {
		wrong.add("must be one of "+strings.Join(Transports, ", "), "transport_type")
	}
	if u, err := url.Parse(healthURL); healthURL != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		wrong.add("is no http or https URL", "health_check_url")
	}
	if len(connection) == 0 {
		wrong.add("is required", "connection_config")
	}
}

// patience returns the context of a change. A change that has begun does not end with its client, and the context of a request is used again for
// another one. It outlasts the longest drain_timeout.
func patience() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 15*time.Minute)
}

func (a *api) register(ctx *fasthttp.RequestCtx) (int, any, error) {
	var r Registration
	if err := read(ctx.PostBody(), &r, "name", "description", "transport_type", "connection_config", "health_check_url", "auto_connect"); err != nil {
		return 0, nil, err
	}
	ctx.SetUserValue("id", r.Name) // for the audit trail
	var wrong mistakes
	check(&wrong, r.Name, r.Description, r.Transport, r.HealthURL, r.Connection)
	if err := wrong.problem(); err != nil {
		return 0, nil, err
	}
	within, cancel := patience()
	defer cancel()
	s, err := a.opt.Register(within, &r)
	if err != nil {
		return 0, nil, err
	}
	ctx.Response.Header.Set("Location", Path+"/servers/"+s.ID)
	return fasthttp.StatusCreated, s, nil
}

func (a *api) update(ctx *fasthttp.RequestCtx) (int, any, error) {
	var u Update
	if err := read(ctx.PostBody(), &u, "name", "transport_type", "description", "connection_config", "health_check_url", "disabled_tools"); err != nil {
		return 0, nil, err
	}
	now, err := a.changeable(ctx)
	if err != nil {
		return 0, nil, err
	}
	if u.Name != nil && *u.Name != now.Name {
		return 0, nil, &Problem{fasthttp.StatusConflict, "A server cannot be renamed: clients call its tools by its name. Register it under the new name, then remove this one"}
	}
	if u.Transport != nil && *u.Transport != now.Transport && u.Connection == nil {
		return 0, nil, Wrong("is required with another transport_type", "body", "connection_config")
	}
	var wrong mistakes
	check(&wrong, now.Name, of(u.Description, now.Description), of(u.Transport, now.Transport), of(u.HealthURL, now.HealthURL), append(u.Connection, ' '))
	if err := wrong.problem(); err != nil {
		return 0, nil, err
	}
	within, cancel := patience()
	defer cancel()
	s, err := a.opt.Update(within, now.ID, &u)
	return fasthttp.StatusOK, s, err
}

func of(given *string, std string) string {
	if given == nil {
		return std
	}
	return *given
}

// changeable returns the server of a request that changes it.
func (a *api) changeable(ctx *fasthttp.RequestCtx) (Server, error) {
	s, err := a.find(ctx, false)
	if err != nil {
		return s, err
	}
	ctx.SetUserValue("id", s.Name)
	if s.Source != Registered {
		return s, &Problem{fasthttp.StatusConflict, "The server " + s.Name + " is in the configuration file, and is changed there"}
	}
	return s, nil
}

// Values of Server.Source.
const (
	Registered    = "registered"
	Configuration = "configuration"
)

func (a *api) remove(ctx *fasthttp.RequestCtx) (int, any, error) {
	within, cancel := patience()
	defer cancel()
	s, err := a.changeable(ctx)
	if err == nil {
		err = a.opt.Remove(within, s.ID)
	}
	return fasthttp.StatusNoContent, nil, err
}

func (a *api) connect(ctx *fasthttp.RequestCtx) (int, any, error) {
	within, cancel := patience()
	defer cancel()
	s, err := a.changeable(ctx)
	if err == nil {
		err = a.opt.Connect(within, s.ID)
	}
	return fasthttp.StatusOK, struct {
		Status  string `json:"status"`
		Message string `json:"message"`
	}{"CONNECTING", "Connection initiated"}, err
}

func (a *api) refresh(ctx *fasthttp.RequestCtx) (int, any, error) {
	s, err := a.find(ctx, false)
	switch {
	case err != nil:
		return 0, nil, err
	case s.Status == "DISCONNECTED":
		return 0, nil, &Problem{fasthttp.StatusConflict, "The server " + s.Name + " is disconnected; connect it, which reads its lists"}
	}
	ctx.SetUserValue("id", s.Name)
	a.opt.Refresh(s.Name)
	return fasthttp.StatusOK, struct {
		Status  string `json:"status"`
		Message string `json:"message"`
	}{s.Status, "Discovery initiated"}, nil
}

func (a *api) disconnect(ctx *fasthttp.RequestCtx) (int, any, error) {
	var body struct {
		Force bool `json:"force"`
	}
	if len(ctx.PostBody()) > 0 {
		if err := read(ctx.PostBody(), &body, "force"); err != nil {
			return 0, nil, err
		}
	}
	within, cancel := patience()
	defer cancel()
	s, err := a.changeable(ctx)
	if err == nil {
		err = a.opt.Disconnect(within, s.ID, body.Force)
	}
	return fasthttp.StatusOK, struct {
		Status  string `json:"status"`
		Pending int    `json:"pending_requests"`
	}{"DISCONNECTED", 0}, err
}
