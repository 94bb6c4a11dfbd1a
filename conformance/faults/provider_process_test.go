package faults

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"

	"dragoman/adapters/grpc/providerpb"
)

// asProvider is the variable that makes the test binary a provider; it has a providerConfig.
const asProvider = "FAULTS_PROVIDER"

// providerConfig is how a provider's process is to be.
type providerConfig struct {
	Name    string        // which its results begin with
	Address string        // where it listens
	Log     string        // file that gets a line for each run, and for each call that was cancelled
	MaxAge  time.Duration // of a connection, after which it says GOAWAY; 0: none
	Certs   string        // directory with cert.pem, key.pem and clients.pem, which are read at each handshake; empty: plain text
	Drains  bool          // at SIGTERM its health service says that it does not serve, before it says GOAWAY
}

// providerMain is the provider's process. At SIGTERM it lets its calls end (GOAWAY); SIGKILL and SIGSTOP are for the tests.
func providerMain() {
	var c providerConfig
	err := json.Unmarshal([]byte(os.Getenv(asProvider)), &c)
	if err == nil {
		err = c.serve()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "provider:", err)
		os.Exit(1)
	}
}

func (c *providerConfig) serve() error {
	file, err := os.OpenFile(c.Log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	note := func(what string) func(tag string) {
		return func(tag string) { _, _ = fmt.Fprintf(file, "%s %s\n", what, tag) } // one write, which outlives the process
	}
	opt := []grpc.ServerOption{grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true})}
	if c.MaxAge > 0 {
		opt = append(opt, grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: c.MaxAge}))
	}
	if c.Certs != "" {
		opt = append(opt, grpc.Creds(credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS13, GetConfigForClient: (&handshakes{dir: c.Certs}).config})))
	}
	l, err := net.Listen("tcp", c.Address)
	if err != nil {
		return err
	}
	s, alive := grpc.NewServer(opt...), health.NewServer()
	providerpb.RegisterProviderServer(s, &provider{ran: note("ran"), cancelled: note("cancelled"), says: c.says})
	healthpb.RegisterHealthServer(s, alive)
	stopped := make(chan os.Signal, 1)
	signal.Notify(stopped, syscall.SIGTERM)
	go func() {
		<-stopped
		if c.Drains {
			alive.Shutdown()
		}
		s.GracefulStop()
	}()
	fmt.Fprintln(os.Stderr, "listening on", l.Addr())
	return s.Serve(l)
}

// handshakes reads the files of Certs.
type handshakes struct {
	dir  string
	pair atomic.Pointer[tls.Certificate] // the last one
}

// config returns the configuration of a handshake.
func (h *handshakes) config(*tls.ClientHelloInfo) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(filepath.Join(h.dir, "cert.pem"), filepath.Join(h.dir, "key.pem"))
	if last := h.pair.Load(); err != nil && last != nil { // only one of the two files has been replaced yet
		pair, err = *last, nil
	}
	if err != nil {
		return nil, err
	}
	h.pair.Store(&pair)
	pem, err := os.ReadFile(filepath.Join(h.dir, "clients.pem"))
	if err != nil {
		return nil, err
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: x509.NewCertPool(), NextProtos: []string{"h2"}}
	if !conf.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, errors.New("no certificate in clients.pem")
	}
	return conf, nil
}

// says returns the result of a call: the provider's name, and with TLS whose certificate the caller has.
func (c *providerConfig) says(ctx context.Context) string {
	said := c.Name
	if p, ok := peer.FromContext(ctx); ok {
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
			said += " for " + info.State.PeerCertificates[0].Subject.CommonName
		}
	}
	return said
}

// process is a provider that runs as a process of its own.
type process struct {
	t    *testing.T
	conf providerConfig
	cmd  *exec.Cmd
	addr string
	out  *buffer
	wait sync.Once
}

// startProcess starts a provider, which ends with the test. An empty address is a free one.
func startProcess(t *testing.T, c providerConfig) *process {
	t.Helper()
	if c.Address == "" {
		c.Address = "127.0.0.1:0"
	}
	if c.Log == "" {
		c.Log = filepath.Join(t.TempDir(), "runs")
	}
	p := &process{t: t, conf: c}
	p.start()
	t.Cleanup(p.kill)
	return p
}

var listensOn = regexp.MustCompile(`listening on (\S+)`)

// start starts the process, again at its address.
func (p *process) start() {
	p.t.Helper()
	conf, err := json.Marshal(p.conf)
	if err != nil {
		p.t.Fatal(err)
	}
	p.cmd, p.out, p.wait = exec.Command(os.Args[0]), &buffer{}, sync.Once{}
	p.cmd.Env, p.cmd.Stderr = append(os.Environ(), asProvider+"="+string(conf)), p.out
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	eventually(p.t, "the provider listens", func() bool {
		m := listensOn.FindStringSubmatch(p.out.String())
		if m != nil {
			p.addr, p.conf.Address = m[1], m[1]
		}
		return m != nil
	})
}

// signal sends a signal to the process.
func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Error(err)
	}
}

// kill ends the process at once.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	p.ended()
}

// ended waits for the end of the process.
func (p *process) ended() { p.wait.Do(func() { _ = p.cmd.Wait() }) }

// noted returns how often a provider has noted something about a call, in all of its processes.
func (p *process) noted(what, tag string) int {
	p.t.Helper()
	raw, err := os.ReadFile(p.conf.Log)
	if err != nil {
		p.t.Fatal(err)
	}
	return bytes.Count(append([]byte("\n"), raw...), []byte("\n"+what+" "+tag+"\n"))
}

// section is the configuration of an upstream.
func section(name, url, more string) string {
	return fmt.Sprintf("[upstreams.%s]\nurl = %q\nconnect_timeout = \"1s\"\nhealth_check_timeout = \"1s\"\n%s\n", name, url, strings.TrimSpace(more))
}
