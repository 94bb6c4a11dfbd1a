package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// binary returns the path of the Dragoman under test.
func binary(t *testing.T) string {
	t.Helper()
	path := os.Getenv("DRAGOMAN")
	if path == "" {
		path = "../../dragoman"
	}
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v: build it (make build), or set DRAGOMAN", err)
	}
	return path
}

// Short limits, so that a test need not wait long for an answer that never comes.
const (
	toolTimeout  = 4 * time.Second
	requestTime  = 12 * time.Second
	checkTimeout = time.Second
)

// head is the configuration of listeners, log and limits, and configuration that of a server at a URL.
const (
	head = `listen = "127.0.0.1:0"
tool_timeout = 4
drain_timeout = "1s"
[admin]
listen = "127.0.0.1:0"
[log]
level = "debug"
format = "json"
[limits]
request_time = "12s"
`
	configuration = head + `[upstreams.default]
url = %q
connect_timeout = "1s"
health_check_interval = "10s"
health_check_timeout = "1s"
`
)

// dragoman is a running Dragoman.
type dragoman struct {
	t           *testing.T
	cmd         *exec.Cmd
	base, admin string // http://…, of serve
	in          io.WriteCloser
	out         io.Reader // of stdio
	log         *buffer
	exited      chan error
}

// buffer is a log that may be read while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// start starts Dragoman in front of the URL: serve or stdio.
func start(t *testing.T, command, url string) *dragoman {
	t.Helper()
	return startWith(t, command, fmt.Sprintf(configuration, url))
}

// startWith starts Dragoman with a configuration and further arguments.
func startWith(t *testing.T, command, config string, args ...string) *dragoman {
	t.Helper()
	file := filepath.Join(t.TempDir(), "faults.toml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	d := &dragoman{t: t, log: &buffer{}, exited: make(chan error, 1), cmd: exec.Command(binary(t), append([]string{command, "--config", file}, args...)...)}
	d.cmd.Stderr = d.log
	var err error
	if command == "stdio" {
		if d.in, err = d.cmd.StdinPipe(); err != nil {
			t.Fatal(err)
		}
		if d.out, err = d.cmd.StdoutPipe(); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = d.cmd.Process.Kill()
		if t.Failed() && testing.Verbose() {
			t.Logf("log of Dragoman:\n%s", d.log)
		}
	})
	if command == "serve" {
		go func() { d.exited <- d.cmd.Wait() }()
		d.listening()
	}
	return d
}

var listening = regexp.MustCompile(`"listen":"(http://[^"/]*)".*"admin":"([^"]*)"`)

func (d *dragoman) listening() {
	d.t.Helper()
	eventually(d.t, "Dragoman listens", func() bool {
		m := listening.FindStringSubmatch(d.log.String())
		if m != nil {
			d.base, d.admin = m[1], m[2]
		}
		return m != nil
	})
}

// end stops Dragoman and checks its exit and its log.
func (d *dragoman) end() {
	d.t.Helper()
	if d.in != nil {
		_ = d.in.Close()
		go func() { d.exited <- d.cmd.Wait() }() // its output was read to the end
	} else if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		d.t.Error(err)
	}
	select {
	case err := <-d.exited:
		if err != nil {
			d.t.Errorf("Dragoman ends with %v", err)
		}
	case <-time.After(patient):
		d.t.Error("Dragoman does not end")
	}
	for _, word := range []string{"panic", "DATA RACE", `"level":"error"`} {
		if strings.Contains(d.log.String(), word) {
			d.t.Errorf("its log has %q", word)
		}
	}
}

func (d *dragoman) get(url string) []byte {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), patient)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	raw, _ := io.ReadAll(res.Body)
	return raw
}

// state returns the state of the upstream from /health, or without a listener from the log.
func (d *dragoman) state() string {
	d.t.Helper()
	if d.base == "" {
		state := ""
		for _, m := range stateLine.FindAllStringSubmatch(d.log.String(), -1) {
			state = m[1]
		}
		return state
	}
	var h struct {
		Dependencies map[string]struct{ State string }
	}
	_ = json.Unmarshal(d.get(d.base+"/health"), &h)
	return h.Dependencies["default"].State
}

var stateLine = regexp.MustCompile(`"from":"[A-Z]*","to":"([A-Z]*)"[^\n]*"message":"state of the upstream"`)

// usage counts the resources that may leak.
type usage struct{ goroutines, files, running, inFlight, leases int }

var sample = regexp.MustCompile(`(?m)^([a-z_]+)(\{[^}]*\})? ([0-9.e+]+)$`)

// metric returns the sum of a metric over its labels.
func (d *dragoman) metric(name string) (sum float64) {
	d.t.Helper()
	for _, m := range sample.FindAllStringSubmatch(string(d.get(d.admin+"/metrics")), -1) {
		if m[1] == name {
			v, _ := strconv.ParseFloat(m[3], 64)
			sum += v
		}
	}
	return sum
}

// resident returns the bytes of memory of the process.
func (d *dragoman) resident() int { return int(d.metric("process_resident_memory_bytes")) }

func (d *dragoman) usage() (u usage) {
	d.t.Helper()
	into := map[string]*int{"go_goroutines": &u.goroutines, "process_open_fds": &u.files, "dragoman_requests_running": &u.running,
		"dragoman_requests_in_flight": &u.inFlight, "dragoman_upstream_leases": &u.leases}
	for _, m := range sample.FindAllStringSubmatch(string(d.get(d.admin+"/metrics")), -1) {
		if at := into[m[1]]; at != nil {
			v, _ := strconv.ParseFloat(m[3], 64)
			*at += int(v)
		}
	}
	return u
}
