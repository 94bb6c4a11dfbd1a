package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"dragoman/bench/load/drive"
	"dragoman/bench/measure"
	"dragoman/bench/reference"
	"dragoman/bench/reference/special"
	"dragoman/bench/registered"
	"dragoman/policies"
)

// The targets of several servers as one.
const (
	leastList    = 0.8              // of the speed of a static body of the size of the list
	mostFirst    = 500.0            // milliseconds, a tenth of what seed 004 wants for one server
	mostEach     = 10.0             // milliseconds a server: 100 servers a second
	mostRestart  = 100.0            // milliseconds from the open port to the complete list
	deadServers  = 5                // of mergedServers, at a restart
	mostServers  = 500              // at once
	mostTools    = 100_000          // of all of them
	mostRSS      = float64(1 << 30) // with so many tools
	someTools    = 1000             // of as many servers, for comparison
	seatedAtOnce = 500              // sessions of one client, one at each server
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

// several measures several servers as one.
func (b *suite) several(ctx context.Context, t *targets) error {
	if _, _, err := t.program(); errors.Is(err, errAbsent) {
		return nil
	}
	for _, part := range []func(context.Context, *targets) error{b.longList, b.restarts, b.administration, b.chaos, b.manyTools} {
		if err := part(ctx, t); err != nil {
			return err
		}
		t.stop()
	}
	return nil
}

// found records a figure that is judged.
func (b *suite) found(v verdict) {
	v.Section = secSeveral
	v.Met = v.Figure.Rounds > 0 && (v.AtLeast && v.Figure.Median >= v.Limit || !v.AtLeast && v.Figure.Median <= v.Limit)
	b.report.Several = append(b.report.Several, v)
	fmt.Fprintf(b.progress, "%s: %s, %s %s; %s\n", v.What, v.figure(), v.limit(), v.word(), v.Beside)
}

// longList compares the list of all tools with a constant of its size at the same listener.
func (b *suite) longList(ctx context.Context, t *targets) error {
	merged, err := t.get(ctx, mergeModern)
	if err != nil {
		return err
	}
	size, err := t.whole(ctx, &merged, mergedServers*mergedTools)
	if err != nil {
		return err
	}
	const static = "static-list"
	t.special[static] = func(ctx context.Context) (target, error) {
		return t.role(ctx, static, roleStatic, "--to", merged.url())
	}
	rows := b.report.addRows(secSeveral, []cell{
		{name: static, what: "a constant at Dragoman's listener", target: static, face: drive.ModernHTTP, lists: true},
		{name: "list", what: "dragoman, tools/list of 50 servers", target: mergeModern, face: drive.ModernHTTP, lists: true},
	}, size, min(b.connections, listConnections))
	b.interleave(ctx, t, rows)
	if len(rows[0].Rounds) == 0 || len(rows[1].Rounds) == 0 {
		return nil // the rows tell why
	}
	b.found(verdict{What: fmt.Sprintf("tools/list of %d tools, %d bytes, against a constant of that size", mergedServers*mergedTools, size), Limit: leastList, AtLeast: true,
		Figure: measure.Ratios(rows[0].values(ofCPU), rows[1].values(ofCPU)), Beside: "requests/s " + ratio(measure.Ratios(rows[1].values(perSecond), rows[0].values(perSecond)))})
	return ctx.Err()
}

// listConnections bounds the connections that ask for long lists: each has the expected answer in memory.
const listConnections = 4

// whole waits until a list says that no part of it is out of date, and checks that it has so many tools. It returns its size in bytes.
func (t *targets) whole(ctx context.Context, under *target, tools int) (size int, err error) {
	ctx, cancel := context.WithTimeout(ctx, wholeLimit)
	defer cancel()
	for {
		found, size, err := under.list(ctx)
		switch {
		case err == nil && found.stale:
		case err == nil && found.tools != tools:
			return 0, fmt.Errorf("bench: a list of %d tools, not %d", found.tools, tools)
		case err == nil:
			return size, nil
		}
		if ended := under.process.Failed(); ended != nil {
			return 0, ended
		}
		if measure.Pause(ctx, retryAfter) != nil {
			return 0, fmt.Errorf("bench: the list is not whole within %v: %w", wholeLimit, err)
		}
	}
}

const (
	wholeLimit = 2 * time.Minute
	staleParts = `"io.dragoman/servers"` // in _meta of a list of which a part is not up to date
	toolMark   = `"inputSchema"`
)

// listed describes a list.
type listed struct {
	tools int
	stale bool // a part of it is not up to date
}

// list asks for all pages of the tools, which have size bytes together.
func (t *target) list(ctx context.Context) (found listed, size int, err error) {
	plan := t.plan(drive.ModernHTTP, smallSize, false)
	for params := ""; ; {
		plan.Calls = []drive.Call{{Name: "list", Method: "tools/list", Varies: true, Params: params}}
		page, err := drive.Ask(ctx, plan)
		if err != nil {
			return found, size, err
		}
		size += len(page)
		found.tools += bytes.Count(page, []byte(toolMark))
		found.stale = found.stale || bytes.Contains(page, []byte(staleParts))
		_, cursor, more := bytes.Cut(page, []byte(`"nextCursor":"`))
		if !more {
			return found, size, nil
		}
		cursor, _, _ = bytes.Cut(cursor, []byte{'"'})
		params = `{"cursor":"` + string(cursor) + `"}`
	}
}

// restarts measures how long after its port is open a restarted Dragoman gives the complete list, with some servers dead.
func (b *suite) restarts(ctx context.Context, t *targets) error {
	living, err := t.listing(ctx, reference.Modern, mergedTools)
	if err != nil {
		return err
	}
	dying, err := t.role(ctx, "dying", roleUpstream, "--era", string(reference.Legacy), "--tools", fmt.Sprint(mergedTools))
	if err != nil {
		return err
	}
	stopped := false
	defer func() {
		if !stopped {
			dying.process.Stop()
		}
	}()
	lines := append(members(&living, mergedServers-deadServers), "")
	for i := mergedServers - deadServers; i < mergedServers; i++ {
		lines = append(lines, fmt.Sprintf("[upstreams.%s]\nurl = %q\n", memberName(i), dying.url()))
	}
	config := fmt.Sprintf("catalogue.path = %q\n", filepath.Join(t.dir, "restarts.db")) + strings.Join(lines, "")
	begun := time.Now()
	before, err := t.configured(ctx, "dragoman-before", false, config)
	if err != nil {
		return err
	}
	_, err = t.whole(ctx, &before, mergedServers*mergedTools)
	first := time.Since(begun)
	before.process.Stop()
	if err != nil {
		return err
	}
	dying.process.Stop()
	stopped = true
	b.found(verdict{What: fmt.Sprintf("first start with %d servers: all connected, and their %d tools listed", mergedServers, mergedServers*mergedTools), Limit: mostFirst, Unit: " ms",
		Figure: measure.Sum([]float64{milli(first)}), Beside: "seed 004: 5 s for each server"})
	var opened, listed []float64
	for range b.rounds {
		one, err := t.restart(ctx, config)
		if err != nil {
			return err
		}
		opened, listed = append(opened, milli(one[0])), append(listed, milli(one[1]))
	}
	b.found(verdict{What: fmt.Sprintf("restart with %d servers, %d of them dead: from the open port to the complete list of %d tools", mergedServers, deadServers, mergedServers*mergedTools),
		Limit: mostRestart, Unit: " ms", Figure: measure.Sum(listed), Beside: "the port is open after " + spread(measure.Sum(opened)) + " ms"})
	return nil
}

// restart starts a Dragoman and returns when its port was open, and how long after that it had given the complete list.
func (t *targets) restart(ctx context.Context, config string) (times [2]time.Duration, err error) {
	begun := time.Now()
	under, err := t.configured(ctx, "dragoman-after", false, config)
	if err != nil {
		return times, err
	}
	defer under.process.Stop()
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", under.addr)
		if err == nil {
			_ = conn.Close() // it has shown that the port is open
			break
		}
		if ctx.Err() != nil {
			return times, errors.Join(err, under.process.Failed())
		}
		shortSleep()
	}
	open := time.Now()
	page, err := special.ListAt(under.url()) // the generator would decode it, in the time that is measured
	times = [2]time.Duration{open.Sub(begun), time.Since(open)}
	if n := bytes.Count(page, []byte(toolMark)); err == nil && n != mergedServers*mergedTools {
		err = fmt.Errorf("bench: the first list after a restart has %d tools, not %d", n, mergedServers*mergedTools)
	}
	return times, err
}

// manyTools measures the memory of few and of the most tools, and of a session at each server.
func (b *suite) manyTools(ctx context.Context, t *targets) error {
	few, _, err := b.weighTools(ctx, t, someTools/mostServers, false)
	if err != nil {
		return err
	}
	many, took, err := b.weighTools(ctx, t, mostTools/mostServers, true)
	if err != nil {
		return err
	}
	b.found(verdict{What: fmt.Sprintf("first start with %d servers and %d tools: all connected and listed, for each server", mostServers, mostTools), Limit: mostEach, Unit: " ms",
		Figure: measure.Sum([]float64{milli(took) / mostServers}), Beside: fmt.Sprintf("%.1f s for all; seed 004: 10 s to connect, 5 s to list, 10 checks a second", took.Seconds())})
	each := float64(many-few) / (mostTools - someTools)
	figure := float64(many)
	b.found(verdict{What: fmt.Sprintf("%d servers with %d tools, all listed, and a session at each: memory", mostServers, mostTools), Limit: mostRSS / (1 << 20), Unit: " MiB",
		Figure: measure.Sum([]float64{figure / (1 << 20)}), Beside: fmt.Sprintf("%s bytes a tool; with %d tools and without sessions %.0f MiB", short(each), someTools, float64(few)/(1<<20))})
	return nil
}

// weighTools returns the memory of a Dragoman in front of the most servers with so many tools each, after all were listed, and how long that took.
func (b *suite) weighTools(ctx context.Context, t *targets, each int, seated bool) (bytes int64, took time.Duration, err error) {
	defer t.stop()
	upstream, err := t.listing(ctx, reference.Legacy, each)
	if err != nil {
		return 0, 0, err
	}
	begun := time.Now()
	under, err := t.configured(ctx, fmt.Sprintf("dragoman-tools-%d", each), false,
		roomy+"catalogue.path = \"memory\"\n"+strings.Join(members(&upstream, mostServers), ""))
	if err != nil {
		return 0, 0, err
	}
	defer under.process.Stop()
	if _, err := t.whole(ctx, &under, each*mostServers); err != nil {
		return 0, 0, err
	}
	took = time.Since(begun)
	if seated {
		if err := under.everyServer(ctx, seatedAtOnce); err != nil {
			return 0, 0, err
		}
	}
	rss, err := b.settled(ctx, under.process.PID())
	if err != nil {
		return 0, 0, err
	}
	return rss[0], took, nil
}

// everyServer calls a tool of each of n servers in one session of a legacy client, so that it has a session at each.
func (t *target) everyServer(ctx context.Context, n int) error {
	for from := 0; from < n; from += drive.MaxCalls {
		plan := t.plan(drive.LegacyHTTP, smallSize, false)
		echo := plan.Calls[0]
		plan.Calls = nil
		for i := from; i < min(n, from+drive.MaxCalls); i++ {
			plan.Calls = append(plan.Calls, at(echo, memberName(i)+".echo"))
		}
		plan.Requests = uint64(len(plan.Calls))
		runner, err := drive.Open(ctx, plan)
		if err != nil {
			return err
		}
		result := runner.Run()
		runner.Close()
		if result.Errors > 0 || result.Right != plan.Requests {
			return fmt.Errorf("bench: %d of %d servers answer: %s", result.Right, plan.Requests, firstOf(result))
		}
	}
	return nil
}

// at returns a call of the tool of another name.
func at(call drive.Call, name string) drive.Call {
	call.Params, call.Header = strings.Replace(call.Params, `"name":"echo"`, `"name":"`+name+`"`, 1), name
	call.Name = name
	return call
}

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
	admin := registered.Admin{Addr: under.admin, Key: key}
	if err := admin.Await(ctx); err != nil {
		return err
	}
	var took, found []float64
	begun := time.Now()
	for i := range registrations {
		answered, listed, err := admin.Register(ctx, fmt.Sprintf("r%d", i), upstream.url(), toolsOfEach)
		if err != nil {
			return err
		}
		took, found = append(took, milli(answered)), append(found, milli(listed))
	}
	each := time.Since(begun).Minutes() / registrations
	b.found(verdict{What: fmt.Sprintf("registering a server, %d one after the other: 95 in 100 within", registrations), Limit: mostRegister, Unit: " ms", Figure: measure.Sum([]float64{at95(took)}), Beside: "seed 004: 2 s; median " + short(measure.Sum(took).Median) + " ms"})
	b.found(verdict{What: fmt.Sprintf("from the registration of a server until its %d tools are listed: 95 in 100 within", toolsOfEach), Limit: mostDiscover, Unit: " ms", Figure: measure.Sum([]float64{at95(found)}), Beside: "seed 004: 10 s to connect and 5 s to list; median " + short(measure.Sum(found).Median) + " ms"})
	b.found(verdict{What: "registrations a minute, each until its tools are listed", Limit: leastRegister, AtLeast: true, Figure: measure.Sum([]float64{1 / each}), Beside: "seed 004: 10"})
	if err := b.checks(ctx, admin); err != nil {
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
func (b *suite) checks(ctx context.Context, admin registered.Admin) error {
	before, err := admin.Checked(ctx)
	if err != nil {
		return err
	}
	if err := measure.Pause(ctx, checkTime); err != nil {
		return err
	}
	after, err := admin.Checked(ctx)
	if err != nil {
		return err
	}
	b.found(verdict{What: fmt.Sprintf("checks a second of %d servers, each due once a second", checkedServers), Limit: leastChecks, AtLeast: true, Figure: measure.Sum([]float64{(after - before) / checkTime.Seconds()}), Beside: "seed 004: 10"})
	return nil
}
