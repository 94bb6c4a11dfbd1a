package faults

import (
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// nameServer answers every question for an address with the current ones.
func nameServer(t *testing.T, addresses *atomic.Value) string {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	t.Cleanup(func() { _ = pc.Close(); <-ended })
	go func() {
		defer close(ended)
		buf := make([]byte, 1500)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buf[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			m.Response, m.Additionals = true, nil
			if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
				for _, a := range addresses.Load().([]string) {
					m.Answers = append(m.Answers, dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class},
						Body: &dnsmessage.AResource{A: netip.MustParseAddr(a).As4()}})
				}
			}
			if out, err := m.Pack(); err == nil {
				_, _ = pc.WriteTo(out, from)
			}
		}
	}()
	return pc.LocalAddr().String()
}

// named starts providers of one name at 127.0.0.1, 127.0.0.2 … and a Dragoman that reaches the first two by it.
func named(t *testing.T, names ...string) (c *caller, all []*process, addresses *atomic.Value) {
	t.Helper()
	all = append(all, startProcess(t, providerConfig{Name: names[0]}))
	port := all[0].addr[strings.LastIndexByte(all[0].addr, ':'):]
	for i, name := range names[1:] {
		all = append(all, startProcess(t, providerConfig{Name: name, Address: fmt.Sprintf("127.0.0.%d%s", i+2, port)}))
	}
	addresses = &atomic.Value{}
	addresses.Store([]string{"127.0.0.1", "127.0.0.2"})
	c = newCaller(t, startWith(t, "serve", patientHead+section("default", "dns://"+nameServer(t, addresses)+"/provider.test"+port, "retry_budget = 100")), "/mcp")
	c.ready()
	return c, all, addresses
}

// One of two addresses dies and comes back: calls that have no effect are made again at the other, and none is lost.
func addressDies(t *testing.T, r *row) {
	c, all, _ := named(t, "one", "two")
	l := newLoad(c, 8, "look.v1", 5)
	l.meets("one")
	l.meets("two")
	all[1].kill()
	l.meets("one")
	all[1].start()
	r.note("the one that is back is used %.1f s later", l.meets("two").Seconds())
	t.Logf("%d calls", l.saved(true, all...))
	c.d.end()
}

// One of two addresses is stopped in the usual way: not even calls that have effects are lost.
func addressStops(t *testing.T, r *row) {
	c, all, _ := named(t, "one", "two")
	l := newLoad(c, 8, "echo.v1", 5)
	l.meets("two")
	long := make([]*running, 2) // of which each address has one
	for i := range long {
		long[i] = c.begin("stream.v1", work{Times: 20, Pause: 50, Pad: 10}, 0, true)
	}
	for _, one := range long {
		one.moves(1)
	}
	all[1].signal(syscall.SIGTERM)
	all[1].ended()
	l.meets("one")
	for _, one := range long {
		one.answered()
	}
	t.Logf("%d calls", l.saved(false, all...))
	c.d.end()
}

// All addresses change: the old ones are gone, and calls go to the new one as soon as the name is resolved again.
func addressesChange(t *testing.T, r *row) {
	c, all, addresses := named(t, "one", "two", "three")
	addresses.Store([]string{"127.0.0.3"})
	all[0].kill()
	all[1].kill()
	began := time.Now()
	c.ready()
	took := time.Since(began)
	if took > 5*time.Second {
		t.Errorf("calls succeed %s after the addresses have changed", took)
	}
	r.note("answered %.1f s later", took.Seconds())
	l := newLoad(c, 4, "echo.v1", 1)
	l.meets("three")
	l.saved(false, all[2])
	c.d.end()
}

// A providers.yaml with another address: calls that run end at the old one, others go to the new one.
func providersChange(t *testing.T, r *row) {
	one, two := startProcess(t, providerConfig{Name: "one"}), startProcess(t, providerConfig{Name: "two"})
	file := filepath.Join(t.TempDir(), "providers.yaml")
	entry := func(p *process) []byte {
		return fmt.Appendf(nil, "providers:\n  - name: hello\n    type: grpc\n    address: %s\n", p.addr)
	}
	put(t, file, entry(one))
	c := newCaller(t, startWith(t, "serve", patientHead, "--providers", file), "/mcp")
	c.ready()
	long := c.begin("stream.v1", work{Times: 10_000, Pause: 20, Pad: 10}, 0, true)
	long.moves(1)
	l := newLoad(c, 8, "echo.v1", 5)
	l.meets("one")
	c.d.reloads(func() { put(t, file, entry(two)) })
	l.meets("two")
	long.moves(1)
	t.Logf("%d calls", l.saved(false, one, two))
	c.leaves(long, one)
	c.d.end()
}
