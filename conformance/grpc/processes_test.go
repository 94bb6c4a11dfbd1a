package services

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patient is the timeout for an event.
const patient = 30 * time.Second

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patient); !cond(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("never happened: %s", what)
		}
	}
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

// process is a running program.
type process struct {
	cmd    *exec.Cmd
	log    *buffer
	exited chan error
}

// run starts a program that ends with the test.
func run(t *testing.T, program string, args ...string) *process {
	t.Helper()
	program, err := filepath.Abs(program) // the process has another directory
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.Command(program, args...), log: &buffer{}, exited: make(chan error, 1)}
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.cmd.Dir = t.TempDir()
	p.cmd.Env = append(os.Environ(), "GRPC_GO_LOG_SEVERITY_LEVEL=error")
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.exited <- p.cmd.Wait() }()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.exited
		if t.Failed() && testing.Verbose() {
			t.Logf("log of %s:\n%s", filepath.Base(program), p.log)
		}
	})
	return p
}

// end asks a program to end, and waits for it.
func (p *process) end(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	select {
	case err := <-p.exited:
		p.exited <- err
		if err != nil {
			t.Errorf("the process ends with %v", err)
		}
	case <-time.After(patient):
		t.Error("the process does not end")
	}
}

// free returns an address of the loopback on which nothing listens.
func free(t *testing.T) (address, port string) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ = net.SplitHostPort(l.Addr().String())
	return l.Addr().String(), port
}

// listens waits until a program listens.
func (p *process) listens(t *testing.T, address string) {
	t.Helper()
	eventually(t, filepath.Base(p.cmd.Path)+" listens", func() bool {
		select {
		case err := <-p.exited:
			p.exited <- err
			t.Fatalf("%s ends: %v\n%s", p.cmd.Path, err, p.log)
		default:
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
}

// toolTimeout is how long Dragoman lets a server be silent in a stream without end, which lasts as long.
const toolTimeout = 2 * time.Second

// configuration gives all other tools a time that a busy machine does not exceed.
const configuration = `listen = "127.0.0.1:0"
tool_timeout = 20
drain_timeout = "1s"
[admin]
listen = "off"
[log]
level = "debug"
format = "json"
[catalogue]
path = "memory"
`

// dragoman is a running Dragoman.
type dragoman struct {
	*process
	base string // http://HOST:PORT
}

var listening = regexp.MustCompile(`"listen":"(http://[^"/]*)"`)

// startDragoman starts Dragoman in front of the servers.
func startDragoman(t *testing.T, path string, of []*server) *dragoman {
	t.Helper()
	text := configuration
	for _, s := range of {
		text += s.toml(t)
	}
	file := filepath.Join(t.TempDir(), "services.toml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	d := &dragoman{process: run(t, path, "serve", "--config", file)}
	eventually(t, "Dragoman listens", func() bool {
		if m := listening.FindStringSubmatch(d.log.String()); m != nil {
			d.base = m[1]
		}
		return d.base != ""
	})
	return d
}

// faultless checks a log that is complete.
func (d *dragoman) faultless(t *testing.T) {
	t.Helper()
	for _, word := range []string{"panic", "DATA RACE", `"level":"error"`} {
		if at := strings.Index(d.log.String(), word); at >= 0 {
			t.Errorf("the log of Dragoman has %q: %.400s", word, d.log.String()[at:])
		}
	}
}
