package httpserver

import (
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/httpd/netpoll"
)

// Every option has a default, and an option that is set stays.
func TestOptionDefaults(t *testing.T) {
	var o Options
	o.setDefaults()
	if o.MaxBody != 4<<20 || o.MaxHeader != 16<<10 || o.MaxReading != 100<<20 || o.MinRate != 1<<10 || o.MaxStreams != 10000 ||
		o.ReadTimeout != 30*time.Second || o.IdleTimeout != 75*time.Second || o.WriteTimeout != 10*time.Second || o.KeepAlive != 15*time.Second || o.MaxAnswers != 0 {
		t.Errorf("%+v", o)
	}
	if n := netpoll.MaxOpenFiles(); o.MaxConns < 1 || n > 3 && (o.MaxConns > n-n/4 || o.MaxConns < n/2 && o.MaxConns != fasthttp.DefaultConcurrency) {
		t.Errorf("%d connections with %d open files", o.MaxConns, n)
	}
	set := Options{MaxBody: 1, MaxConns: 2, MinRate: -1, KeepAlive: 3}
	if set.setDefaults(); set.MaxBody != 1 || set.MaxConns != 2 || set.MinRate != -1 || set.KeepAlive != 3 {
		t.Errorf("%+v", set)
	}
}

// failingListener is a listener that fails some times before it accepts nothing any more.
type failingListener struct {
	errs []error
	next int
}

func (l *failingListener) Accept() (net.Conn, error) {
	err := l.errs[min(l.next, len(l.errs)-1)]
	l.next++
	return nil, err
}
func (*failingListener) Close() error   { return nil }
func (*failingListener) Addr() net.Addr { return &net.TCPAddr{} }

// Accepting goes on after a failure that passes, with longer and longer pauses; another failure ends it.
func TestAcceptFails(t *testing.T) {
	var log []string
	s, err := NewServer(Options{Logf: func(format string, args ...any) {
		if strings.Contains(format, "accept") {
			log = append(log, args[1].(time.Duration).String())
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Shutdown(t.Context()) }()
	full := &net.OpError{Op: "accept", Err: syscall.EMFILE}
	gone := errors.New("the network is gone")
	if err := s.Serve(&failingListener{errs: []error{full, full, full, gone}}); !errors.Is(err, gone) {
		t.Errorf("%v", err)
	}
	if got := strings.Join(log, " "); got != "5ms 10ms 20ms" {
		t.Errorf("the pauses are %s", got)
	}
	if err := s.Serve(&failingListener{errs: []error{net.ErrClosed}}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a closed listener: %v", err)
	}
	if transient(io.EOF) || !transient(full) || transient(gone) {
		t.Error("which failures pass")
	}
}

// Connections that serve nothing give way, an eighth at a time and the newest half never: first those without any byte of a request.
func TestWhichConnectionsGiveWay(t *testing.T) {
	for name, c := range map[string]struct {
		phases []int32 // in the order of accepting
		want   []int   // that are closed; of several any
		twice  bool
	}{
		"idle before reading":     {[]int32{phaseReading, phaseReading, phaseIdle, phaseIdle, phaseIdle, phaseIdle}, []int{2}, false},
		"an eighth":               {slices.Repeat([]int32{phaseIdle}, 16), []int{0, 1}, false},
		"reading if none is idle": {[]int32{phaseHandling, phaseReading, phaseIdle, phaseIdle}, []int{1}, false},
		"never the newest":        {[]int32{phaseHandling, phaseHandling, phaseIdle, phaseReading}, nil, true},
		"never at work":           {[]int32{phaseHandling, phaseHandling}, nil, true},
	} {
		s, err := NewServer(Options{})
		if err != nil {
			t.Fatal(err)
		}
		var all []*conn
		for _, phase := range c.phases {
			one, other := net.Pipe()
			t.Cleanup(func() { _ = other.Close() })
			conn, _ := s.open(one)
			s.accepted++
			conn.number = s.accepted
			conn.phase.Store(phase)
			s.conns[conn] = struct{}{}
			all = append(all, conn)
		}
		s.evictIdle()
		closed := 0
		for i, conn := range all {
			if conn.closed.Load() {
				closed++
				if len(c.want) == 1 && i != c.want[0] {
					t.Errorf("%s: connection %d is closed", name, i)
				}
			}
		}
		if closed != len(c.want) || s.Conns() != len(all)-closed || s.overload.nothingIdle.After(time.Now()) != c.twice {
			t.Errorf("%s: %d are closed, %d are left, none was idle: %v", name, closed, s.Conns(), s.overload.nothingIdle.After(time.Now()))
		}
		if c.twice { // at once it is not looked again
			all[0].phase.Store(phaseIdle)
			if s.evictIdle(); all[0].closed.Load() {
				t.Errorf("%s: it is looked for idle ones again", name)
			}
			s.overload.nothingIdle = time.Now().Add(-1)
			if s.evictIdle(); !all[0].closed.Load() {
				t.Errorf("%s: it is never looked for idle ones again", name)
			}
		}
		for _, conn := range all {
			conn.shut(true)
		}
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
