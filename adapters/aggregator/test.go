package aggregator

import (
	"context"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/merge/deceptive"
)

// Bounds of tests of connections.
const (
	maxTests = 4 // that run at the same time
	testTime = 30 * time.Second
	// retryTest is after how many seconds a test that finds no room may be tried again.
	retryTest = 5
)

// Tested is the result of a test of a connection. Texts of the server are shortened, and each of their characters is visible.
type Tested struct {
	OK        bool          `json:"ok"` // it was connected, and its lists were read
	Eras      string        `json:"eras,omitempty"`
	Revision  string        `json:"revision,omitempty"`
	Server    *ServerInfo   `json:"server_info,omitempty"`
	Tools     int           `json:"tool_count"`
	Prompts   int           `json:"prompt_count"`
	Resources int           `json:"resource_count"`
	Took      int64         `json:"took_ms"`
	Error     string        `json:"error_message,omitempty"` // why it is not OK
	Warnings  []TestWarning `json:"warnings"`
}

// ServerInfo is the name and version that a server gives.
type ServerInfo struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// TestWarning is text of a definition that a model reads and people do not see.
type TestWarning struct {
	List string `json:"list"` // tools, prompts or resources
	Name string `json:"name"` // of the tool or prompt; the URI of a resource
	deceptive.Finding
}

func (a *api) test(ctx *fasthttp.RequestCtx) (int, any, error) {
	var r Registration
	if err := read(ctx.PostBody(), &r, "name", "description", "transport_type", "connection_config", "health_check_url"); err != nil {
		return 0, nil, err
	}
	if r.Name == "" {
		r.Name = "test"
	}
	ctx.SetUserValue("id", r.Name) // for the audit trail
	var wrong mistakes
	check(&wrong, r.Name, r.Description, r.Transport, r.HealthURL, r.Connection)
	if err := wrong.problem(); err != nil {
		return 0, nil, err
	}
	select {
	case a.tests <- struct{}{}:
		defer func() { <-a.tests }()
	default:
		ctx.Response.Header.Set("Retry-After", strconv.Itoa(retryTest))
		return 0, nil, &Problem{fasthttp.StatusTooManyRequests, strconv.Itoa(maxTests) + " connections are being tested; try again when one of them has ended"}
	}
	within, cancel := context.WithTimeout(context.Background(), testTime)
	defer cancel()
	got, err := a.opt.Test(within, &r)
	return fasthttp.StatusOK, got, err
}
