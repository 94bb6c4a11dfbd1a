package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"dragoman/bench/load/drive"
	"dragoman/bench/measure"
	"dragoman/bench/reference"
	"dragoman/policies"
)

// The targets of servers that are registered at run time: a tenth of the times of seed 004 (Performance SLAs), and ten times its numbers.
const (
	mostRegister   = 200.0 // milliseconds, of 95 in 100
	mostDiscover   = 500.0 // milliseconds from the registration to all tools, connecting included, of 95 in 100
	leastRegister  = 100.0 // a minute
	leastCalls     = 1000.0
	leastChecks    = 100.0 // a second
	registrations  = 100
	toolsOfEach    = 100 // so that all have the 10,000 tools that the seed allows
	sessionsAtOnce = 200
	checkedServers = 150 // each once a second
	checkTime      = 5 * time.Second
	callTime       = 3 * time.Second
)

// administration measures servers that are registered while Dragoman runs, and the checks of many.
func (b *suite) administration(ctx context.Context, t *targets) error {
	upstream, err := t.listing(ctx, reference.Legacy, toolsOfEach)
	if err != nil {
		return err
	}
	key := policies.NewKey()
	lines := []string{fmt.Sprintf("catalogue.path = %q\n[aggregator]\nnetworks = [\"127.0.0.1\"]\nkeys.bench = { hashes = [%q], role = \"operator\" }\n", filepath.Join(t.dir, "registered.db"), policies.HashKey(key))}
	for i := range checkedServers {
		lines = append(lines, fmt.Sprintf("[upstreams.checked%d]\nurl = %q\nhealth_check_interval = \"1s\"\naccess.\"*\".tools = []\n", i, upstream.url()))
	}
	under, err := t.configured(ctx, "dragoman-registered", true, strings.Join(lines, ""))
	if err != nil {
		return err
	}
	defer under.process.Stop()
	api := registrar{ctx, "http://" + under.admin + "/api/v1/aggregator/servers", key}
	var took, found []float64
	begun := time.Now()
	for i := range registrations {
		registered, listed, err := api.register(fmt.Sprintf("r%d", i), upstream.url())
		if err != nil {
			return err
		}
		took, found = append(took, milli(registered)), append(found, milli(listed))
	}
	each := time.Since(begun).Minutes() / registrations
	b.found(verdict{What: fmt.Sprintf("registering a server, %d one after the other: 95 in 100 within", registrations), Limit: mostRegister, Unit: " ms", Figure: measure.Sum([]float64{at95(took)}), Beside: "seed 004: 2 s; median " + short(measure.Sum(took).Median) + " ms"})
	b.found(verdict{What: fmt.Sprintf("from the registration of a server until its %d tools are listed: 95 in 100 within", toolsOfEach), Limit: mostDiscover, Unit: " ms", Figure: measure.Sum([]float64{at95(found)}), Beside: "seed 004: 10 s to connect and 5 s to list; median " + short(measure.Sum(found).Median) + " ms"})
	b.found(verdict{What: "registrations a minute, each until its tools are listed", Limit: leastRegister, AtLeast: true, Figure: measure.Sum([]float64{1 / each}), Beside: "seed 004: 10"})
	if err := b.checks(ctx, &under); err != nil {
		return err
	}
	return b.sessions(ctx, &under)
}

// at95 returns the value that 95 in 100 do not exceed.
func at95(all []float64) float64 {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[(len(sorted)*95+99)/100-1]
}

// sessions measures calls of many sessions at once at the servers that were registered.
func (b *suite) sessions(ctx context.Context, under *target) error {
	plan := under.plan(drive.LegacyHTTP, smallSize, false)
	echo := plan.Calls[0]
	plan.Calls = nil
	for i := range min(registrations, drive.MaxCalls) {
		plan.Calls = append(plan.Calls, at(echo, fmt.Sprintf("r%d.echo", i)))
	}
	plan.Connections, plan.Warmup, plan.Duration = sessionsAtOnce, time.Second, callTime
	runner, err := drive.Open(ctx, plan)
	if err != nil {
		return err
	}
	defer runner.Close()
	result := runner.Run()
	if result.Errors > 0 {
		return fmt.Errorf("bench: calls at registered servers: %s", firstOf(result))
	}
	b.found(verdict{What: fmt.Sprintf("calls a second of %d sessions at %d registered servers", sessionsAtOnce, len(plan.Calls)), Limit: leastCalls, AtLeast: true,
		Figure: measure.Sum([]float64{float64(result.Right) / callTime.Seconds()}), Beside: "seed 004: 100 calls a second, 20 sessions"})
	return nil
}

// checks counts the checks of servers for a while.
func (b *suite) checks(ctx context.Context, under *target) error {
	before, err := under.checked(ctx)
	if err != nil {
		return err
	}
	if err := measure.Pause(ctx, checkTime); err != nil {
		return err
	}
	after, err := under.checked(ctx)
	if err != nil {
		return err
	}
	b.found(verdict{What: fmt.Sprintf("checks a second of %d servers, each due once a second", checkedServers), Limit: leastChecks, AtLeast: true, Figure: measure.Sum([]float64{(after - before) / checkTime.Seconds()}), Beside: "seed 004: 10"})
	return nil
}

var goodChecks = regexp.MustCompile(`(?m)^dragoman_upstream_checks_total\{[^}]*outcome="ok"[^}]*\} (\S+)$`)

// checked returns how many checks have succeeded.
func (t *target) checked(ctx context.Context) (sum float64, err error) {
	raw, err := fetch(ctx, http.MethodGet, "http://"+t.admin+"/metrics", "", "", http.StatusOK)
	for _, m := range goodChecks.FindAllSubmatch(raw, -1) {
		n, wrong := strconv.ParseFloat(string(m[1]), 64)
		sum, err = sum+n, errors.Join(err, wrong)
	}
	return sum, err
}

// registrar registers servers.
type registrar struct {
	ctx      context.Context //nolint:containedctx // it lives for one section
	url, key string
}

// register registers a server, and returns how long the answer took, and how long it was until all its tools were listed.
func (r registrar) register(name, url string) (registered, listed time.Duration, err error) {
	begun := time.Now()
	if _, err := fetch(r.ctx, http.MethodPost, r.url, r.key, fmt.Sprintf(`{"name":%q,"transport_type":"HTTP","connection_config":{"base_url":%q},"auto_connect":true}`, name, url), http.StatusCreated); err != nil {
		return 0, 0, err
	}
	registered = time.Since(begun)
	for {
		raw, err := fetch(r.ctx, http.MethodGet, r.url+"/"+name, r.key, "", http.StatusOK)
		var s struct {
			Tools int `json:"tool_count"`
		}
		if err == nil {
			err = json.Unmarshal(raw, &s)
		}
		switch {
		case err != nil:
			return 0, 0, err
		case s.Tools == toolsOfEach:
			return registered, time.Since(begun), nil
		case time.Since(begun) > wholeLimit:
			return 0, 0, fmt.Errorf("bench: %s has %d tools, not %d", name, s.Tools, toolsOfEach)
		}
		shortSleep()
	}
}

// fetch sends a request and returns the body of the answer, which must have a status.
func fetch(ctx context.Context, verb, url, key, body string, status int) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, verb, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }() // it was read
	raw, err := io.ReadAll(io.LimitReader(res.Body, 64<<20))
	if err == nil && res.StatusCode != status {
		err = fmt.Errorf("bench: %s %s: %d %s", verb, url, res.StatusCode, bytes.TrimSpace(raw))
	}
	return raw, err
}
