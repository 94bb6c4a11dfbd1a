package registry

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"dragoman/adapters/httpd/http1"
	"dragoman/adapters/httpd/httpclient"
	"dragoman/internal/app/target"
	"dragoman/internal/config"
	"dragoman/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Run(m) }

// nameServer answers questions for IPv4 addresses with what answer returns, and has the resolver of this process ask it.
func nameServer(t *testing.T, answer func() []string) {
	t.Helper()
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		query := make([]byte, 512)
		for {
			n, from, err := c.ReadFrom(query)
			if err != nil {
				return
			}
			_, _ = c.WriteTo(reply(query[:n], answer), from)
		}
	}()
	was := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", c.LocalAddr().String())
	}}
	t.Cleanup(func() {
		net.DefaultResolver = was
		_ = c.Close()
		<-ended
	})
}

// reply answers a query of one question (RFC 1035 §4).
func reply(query []byte, answer func() []string) []byte {
	end := 12
	for end < len(query) && query[end] != 0 {
		end += int(query[end]) + 1
	}
	end += 5 // the root, type and class
	if end > len(query) {
		return nil
	}
	var addresses []string
	if binary.BigEndian.Uint16(query[end-4:]) == 1 { // A
		addresses = answer()
	}
	out := append([]byte{}, query[:end]...)
	out[2], out[3] = 0x84, 0
	binary.BigEndian.PutUint16(out[6:], uint16(len(addresses)))
	copy(out[8:12], make([]byte, 4))
	for _, address := range addresses {
		ip := netip.MustParseAddr(address).As4()
		out = append(out, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4) // the name of the question, A, IN, not to be kept
		out = append(out, ip[:]...)
	}
	return out
}

// counted accepts connections at an address, answers a request on each, and counts them.
func counted(t *testing.T, address string) (port string, connections *atomic.Int64) {
	t.Helper()
	ln, err := net.Listen("tcp", address)
	if err != nil {
		t.Skipf("there is no address %s: %v", address, err)
	}
	connections = &atomic.Int64{}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			_ = c.SetDeadline(time.Now().Add(testkit.Patient))
			_, _ = c.Read(make([]byte, 1024))
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = ln.Close(); <-ended })
	_, port, _ = net.SplitHostPort(ln.Addr().String())
	return port, connections
}

// A name is judged by the address that is connected to, at each connection: one that led to an allowed address before leads nowhere else.
func TestNamesThatChange(t *testing.T) {
	port, good := counted(t, "127.0.0.2:0")
	_, private := counted(t, "127.0.0.1:"+port)
	var answers atomic.Pointer[[]string]
	nameServer(t, func() []string { return *answers.Load() })
	r := New(Options{Log: zerolog.Nop(), Now: func() (*config.Config, *target.Set) {
		return &config.Config{Aggregator: config.AggregatorConfig{Networks: []string{"127.0.0.2"}}}, &target.Set{}
	}})
	host, err := httpclient.NewHost(httpclient.HostOptions{URL: "http://rebind.example:" + port + "/mcp", Proxy: "off", Refuse: r.Refuse})
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	send := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), testkit.Patient)
		defer cancel()
		var req http1.Request
		res, err := host.Send(ctx, &req)
		if err != nil {
			return err
		}
		defer res.Close()
		_, _, err = res.Head(time.Time{})
		return err
	}
	for _, test := range []struct {
		answers []string
		refused bool
	}{
		{[]string{"127.0.0.2"}, false},
		{[]string{"127.0.0.1"}, true}, // the name has changed
		{[]string{"127.0.0.2"}, false},
		{[]string{"127.0.0.3", "127.0.0.1"}, true},
		{[]string{"10.0.0.1"}, true}, {[]string{"169.254.169.254"}, true}, {[]string{"0.0.0.0"}, true},
	} {
		answers.Store(&test.answers)
		before := good.Load()
		err := send()
		if (err != nil) != test.refused || test.refused && !strings.Contains(err.Error(), "aggregator.networks") || !test.refused && good.Load() != before+1 {
			t.Errorf("%q: %v, %d connections", test.answers, err, good.Load())
		}
	}
	if n := private.Load(); n != 0 {
		t.Errorf("%d connections to the address that is not allowed", n)
	}
}
