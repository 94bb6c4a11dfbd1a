package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// stage is a server, two Dragomans in front of it, and the load balancer in front of them.
type stage struct {
	o         options
	dir       string
	front     string // address for clients
	server    string
	instances []*instance
	others    []*exec.Cmd // server and load balancer
	socket    string      // control socket of the load balancer
}

// instance is one Dragoman.
type instance struct {
	name          string
	listen, admin string
	cmd           *exec.Cmd
}

func newStage(o options, dir string) (*stage, error) {
	s := &stage{o: o, dir: dir, socket: filepath.Join(dir, "haproxy.sock")}
	ports, err := freePorts(6)
	if err != nil {
		return nil, err
	}
	s.front, s.server = ports[0], ports[1]
	s.instances = []*instance{{name: "a", listen: ports[2], admin: ports[3]}, {name: "b", listen: ports[4], admin: ports[5]}}
	return s, nil
}

// freePorts finds free addresses.
func freePorts(n int) (all []string, err error) {
	for range n {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer ln.Close() // held until all are chosen, so that they differ
		all = append(all, ln.Addr().String())
	}
	return all, nil
}

func (s *stage) start(ctx context.Context) error {
	server, err := s.spawn("server", s.o.dragoman, "demo", "--http", s.server)
	if err != nil {
		return err
	}
	s.others = append(s.others, server)
	for _, i := range s.instances {
		if err := s.launch(ctx, i); err != nil {
			return err
		}
	}
	config := filepath.Join(s.dir, "haproxy.cfg")
	if err := os.WriteFile(config, []byte(s.config()), 0o600); err != nil {
		return err
	}
	balancer, err := s.spawn("haproxy", s.o.haproxy, "-db", "-f", config)
	if err != nil {
		return err
	}
	s.others = append(s.others, balancer)
	for _, i := range s.instances {
		if err := s.isUp(ctx, i, true); err != nil {
			return err
		}
	}
	return nil
}

// config is a usual configuration: health checks at the admin listener, and sticky sessions.
func (s *stage) config() string {
	var b strings.Builder
	fmt.Fprintf(&b, `global
  stats socket %s mode 600
defaults
  mode http
  timeout connect 2s
  timeout client 1m
  timeout server 1m
  retries 3
  option redispatch 1
frontend mcp
  bind %s
  default_backend dragoman
backend dragoman
  balance roundrobin
  stick-table type string len 64 size 100k expire 10m
  stick on hdr(Mcp-Session-Id)
  stick store-response hdr(Mcp-Session-Id)
  option httpchk
  http-check send meth GET uri /readyz ver HTTP/1.1 hdr Host localhost
  default-server check inter 250ms fall 2 rise 1
`, s.socket, s.front)
	for _, i := range s.instances {
		_, port, _ := net.SplitHostPort(i.admin)
		fmt.Fprintf(&b, "  server %s %s port %s\n", i.name, i.listen, port)
	}
	return b.String()
}

// launch starts an instance and waits until it is ready.
func (s *stage) launch(ctx context.Context, i *instance) (err error) {
	i.cmd, err = s.spawn(i.name, s.o.dragoman, "serve", "--listen", i.listen, "--admin", i.admin, "--drain-delay", s.o.delay.String(),
		"--log-level", "info", "http://"+s.server+"/mcp")
	if err != nil {
		return err
	}
	return until(ctx, i.name+" is ready", func() bool {
		res, err := http.Get("http://" + i.admin + "/readyz") //nolint:noctx // on this machine, a moment
		if err != nil {
			return false
		}
		defer res.Body.Close()
		_, _ = io.Copy(io.Discard, res.Body)
		return res.StatusCode == http.StatusOK
	})
}

// restart ends an instance as a deployment does and starts it again. It returns how long the end took.
func (s *stage) restart(ctx context.Context, i *instance) (took time.Duration, err error) {
	began := time.Now()
	if err := i.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return 0, err
	}
	if err := s.ended(i); err != nil {
		return 0, fmt.Errorf("%s: %w", i.name, err)
	}
	took = time.Since(began)
	if err := s.launch(ctx, i); err != nil {
		return 0, err
	}
	return took, s.isUp(ctx, i, true)
}

// kill kills an instance and starts it again.
func (s *stage) kill(ctx context.Context, i *instance) error {
	if err := i.cmd.Process.Kill(); err != nil {
		return err
	}
	_ = i.cmd.Wait()
	if err := s.isUp(ctx, i, false); err != nil {
		return err
	}
	if err := s.launch(ctx, i); err != nil {
		return err
	}
	return s.isUp(ctx, i, true)
}

func (s *stage) ended(i *instance) error {
	done := make(chan error, 1)
	go func() { done <- i.cmd.Wait() }()
	select {
	case err := <-done:
		return err
	case <-time.After(startWait + 15*time.Second):
		_ = i.cmd.Process.Kill()
		return errTimeout
	}
}

// isUp waits until the load balancer considers an instance up, or down.
func (s *stage) isUp(ctx context.Context, i *instance, want bool) error {
	return until(ctx, fmt.Sprintf("the load balancer sees %s", i.name), func() bool {
		conn, err := net.Dial("unix", s.socket)
		if err != nil {
			return false
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "show stat\n")
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			fields := strings.Split(lines.Text(), ",")
			if len(fields) > 17 && fields[0] == "dragoman" && fields[1] == i.name {
				return strings.HasPrefix(fields[17], "UP") == want
			}
		}
		return false
	})
}

func (s *stage) spawn(name, path string, args ...string) (*exec.Cmd, error) {
	log, err := logFile(s.dir, name)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return cmd, nil
}

func (s *stage) close() {
	for _, i := range s.instances {
		if i.cmd != nil && i.cmd.ProcessState == nil {
			_ = i.cmd.Process.Kill()
			_ = i.cmd.Wait()
		}
	}
	for _, cmd := range s.others {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}
