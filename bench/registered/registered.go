// Package registered registers servers at a Dragoman, and reads how often it checks them.
package registered

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"dragoman/bench/measure"
)

// Admin is the admin listener of a Dragoman.
type Admin struct {
	Addr string // host:port
	Key  string // of an operator
}

// patience bounds the wait for the tools of a server.
const patience = time.Minute

// Register registers a server, and returns how long the answer took, and how long it was until all its tools were listed.
func (a Admin) Register(ctx context.Context, name, url string, tools int) (registered, listed time.Duration, err error) {
	begun := time.Now()
	const servers = "/api/v1/aggregator/servers"
	if _, err := a.fetch(ctx, http.MethodPost, servers, fmt.Sprintf(`{"name":%q,"transport_type":"HTTP","connection_config":{"base_url":%q},"auto_connect":true}`, name, url), http.StatusCreated); err != nil {
		return 0, 0, err
	}
	registered = time.Since(begun)
	for {
		raw, err := a.fetch(ctx, http.MethodGet, servers+"/"+name, "", http.StatusOK)
		var s struct {
			Tools int `json:"tool_count"`
		}
		if err == nil {
			err = json.Unmarshal(raw, &s)
		}
		switch {
		case err != nil:
			return 0, 0, err
		case s.Tools == tools:
			return registered, time.Since(begun), nil
		case time.Since(begun) > patience:
			return 0, 0, fmt.Errorf("bench: %s has %d tools, not %d", name, s.Tools, tools)
		}
		if err := measure.Pause(ctx, time.Millisecond); err != nil {
			return 0, 0, err
		}
	}
}

// Await waits until the listener answers.
func (a Admin) Await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		_, err := a.fetch(ctx, http.MethodGet, "/healthz", "", http.StatusOK)
		if err == nil || measure.Pause(ctx, time.Millisecond) != nil {
			return err
		}
	}
}

var goodChecks = regexp.MustCompile(`(?m)^dragoman_upstream_checks_total\{[^}]*outcome="ok"[^}]*\} (\S+)$`)

// Checked returns how many checks of servers have succeeded.
func (a Admin) Checked(ctx context.Context) (sum float64, err error) {
	raw, err := a.fetch(ctx, http.MethodGet, "/metrics", "", http.StatusOK)
	for _, m := range goodChecks.FindAllSubmatch(raw, -1) {
		n, wrong := strconv.ParseFloat(string(m[1]), 64)
		sum, err = sum+n, errors.Join(err, wrong)
	}
	return sum, err
}

// fetch sends a request and returns the body of the answer, which must have a status.
func (a Admin) fetch(ctx context.Context, verb, path, body string, status int) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, verb, "http://"+a.Addr+path, strings.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+a.Key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	defer func() { _ = res.Body.Close() }() // it was read
	raw, err := io.ReadAll(io.LimitReader(res.Body, 64<<20))
	if err == nil && res.StatusCode != status {
		err = fmt.Errorf("bench: %s %s: %d %s", verb, path, res.StatusCode, bytes.TrimSpace(raw))
	}
	return raw, err
}
