// Package channel calls gRPC servers for exchanges: it makes the connections and the metadata of calls, and turns statuses into errors of
// the table and back.
//
// A Channel is the connections to one server. A Stream is one call there, whatever its kind, whose messages are pulled as replies are.
package channel

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/health" // the client's side: round_robin leaves out addresses that do not serve
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/resolver/dns"

	"dragoman/adapters/httpd/httpclient"
)

// Options configure a Channel. A zero value stands for the default at the end of each comment.
type Options struct {
	// Target is an address in the syntax of gRPC: "dns:///HOST:PORT", all of whose addresses are used, or "passthrough:///HOST:PORT".
	Target string
	// TLS says that the connections use TLS; without it everybody on the way can read them.
	TLS bool
	// CAFile is a PEM file of the roots to trust instead of the system's.
	CAFile string
	// CertFile and KeyFile are PEM files of the certificate by which Dragoman shows who it is. They are read at each handshake, so that they
	// can be replaced at any time.
	CertFile, KeyFile string
	// Headers are metadata of every call. Their values are never logged.
	Headers []httpclient.Header
	// Forward are the metadata that a call takes from the headers of its client.
	Forward []httpclient.Forward
	// Credentials, if not nil, provides the authorization of each call.
	Credentials httpclient.Credentials
	// NoProxy connects directly, whatever HTTPS_PROXY says.
	NoProxy bool
	// Refuse, if not nil, judges the address of each connection before it is made; no proxy is used then.
	Refuse func(to netip.AddrPort) error
	// UserAgent is put before that of gRPC.
	UserAgent string

	ConnectTimeout time.Duration // for a usable connection, TLS included; 10 s
	// KeepaliveTime is how long a connection with calls may be silent before it is asked for a sign of life; 5 min, the least that servers
	// of grpc-go allow. KeepaliveTimeout is how long that may take; 20 s.
	KeepaliveTime, KeepaliveTimeout time.Duration
	MaxMessage                      int // bytes of a message of the server; 16 MiB
	MaxMetadata                     int // bytes of the metadata of an answer; 16 KiB
}

// Channel is the connections to one gRPC server. It is safe for concurrent use.
type Channel struct {
	opt  Options
	conn *grpc.ClientConn
}

// The pauses between attempts to connect. gRPC's own grow to two minutes, which a server that is back would have to wait.
var reconnects = backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second}

// What a server may send ahead of its readers, in bytes: for a call, and for all calls of a connection, where what waits for the reader of a call does not
// count. gRPC's own windows grow with bandwidth and latency up to 16 MiB for a call, so that the clients that read nothing would fill the memory.
const (
	callWindow       = 1 << 20
	connectionWindow = 16 << 20
)

// resolveAgain lets a name be resolved again a second after the last time, when a connection has failed. gRPC's own 30 s would be an outage of 30 s for the
// calls to a server whose addresses have all changed. It is a setting of the whole process, for which gRPC wants to be told before it resolves any name.
var resolveAgain = sync.OnceFunc(func() { dns.SetMinResolutionInterval(time.Second) })

// Every address of a name is used in turn, but for those whose server says that it does not serve (grpc.health.v1).
const balancing = `{"loadBalancingConfig":[{"round_robin":{}}],"healthCheckConfig":{"serviceName":""}}`

// New returns a Channel. Nothing is connected before the first call. The error says which file cannot be used.
func New(opt Options) (*Channel, error) {
	opt.ConnectTimeout = cmp.Or(opt.ConnectTimeout, 10*time.Second)
	opt.KeepaliveTime, opt.KeepaliveTimeout = cmp.Or(opt.KeepaliveTime, 5*time.Minute), cmp.Or(opt.KeepaliveTimeout, 20*time.Second)
	opt.MaxMessage, opt.MaxMetadata = cmp.Or(opt.MaxMessage, 16<<20), cmp.Or(opt.MaxMetadata, 16<<10)
	resolveAgain()
	security := insecure.NewCredentials()
	if opt.TLS {
		conf, err := opt.tls()
		if err != nil {
			return nil, err
		}
		security = credentials.NewTLS(conf)
	}
	dial := []grpc.DialOption{
		grpc.WithTransportCredentials(security), grpc.WithUserAgent(opt.UserAgent), grpc.WithDefaultServiceConfig(balancing), grpc.WithDisableServiceConfig(),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnects, MinConnectTimeout: opt.ConnectTimeout}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: opt.KeepaliveTime, Timeout: opt.KeepaliveTimeout}),
		grpc.WithStaticStreamWindowSize(callWindow), grpc.WithStaticConnWindowSize(connectionWindow),
		grpc.WithMaxHeaderListSize(uint32(min(opt.MaxMetadata, 1<<30))), //nolint:gosec // it fits
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(opt.MaxMessage), grpc.MaxCallSendMsgSize(1<<30)),
	}
	if opt.Refuse != nil {
		dial = append(dial, grpc.WithContextDialer(opt.dial))
	}
	if opt.NoProxy {
		dial = append(dial, grpc.WithNoProxy())
	}
	conn, err := grpc.NewClient(opt.Target, dial...)
	if err != nil {
		return nil, fmt.Errorf("grpc: address %s: %w", opt.Target, err)
	}
	return &Channel{opt: opt, conn: conn}, nil
}

// tls returns the TLS configuration of connections.
func (o *Options) tls() (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CAFile != "" {
		pem, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("grpc: CA file: %w", err)
		}
		if conf.RootCAs = x509.NewCertPool(); !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("grpc: CA file %s: no certificate in it", o.CAFile)
		}
	}
	if o.CertFile == "" {
		return conf, nil
	}
	own := func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("grpc: client certificate: %w", err)
		}
		return &pair, nil
	}
	conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return own() }
	_, err := own()
	return conf, err
}

// dial connects to an address that Refuse allows.
func (o *Options) dial(ctx context.Context, address string) (net.Conn, error) {
	d := net.Dialer{Control: func(_, to string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(to)
		if err != nil {
			return err
		}
		return o.Refuse(at)
	}}
	return d.DialContext(ctx, "tcp", address)
}

// Close ends all calls and connections.
func (c *Channel) Close() error { return c.conn.Close() }

// Hide returns a text of the server without its credentials and the forwarded metadata of ctx, except those for tracing.
func (c *Channel) Hide(ctx context.Context, text string) string {
	if c.opt.Credentials != nil {
		text = c.opt.Credentials.Hide(text)
	}
	return httpclient.HideForwarded(ctx, c.opt.Forward, text)
}

// Authority returns the host and port of the target.
func (c *Channel) Authority() string {
	_, at, _ := strings.Cut(c.opt.Target, ":///")
	return cmp.Or(at, c.opt.Target)
}
