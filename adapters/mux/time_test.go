package mux

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Next returns at its own deadline, whatever other calls wait for, and may be called again.
func TestMuxTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := counting(NewLines(proxy.Modern, &testLines{}, &muxSink{}))
		begin := time.Now()
		at := func(d time.Duration) { time.Sleep(time.Until(begin.Add(d))) }
		done := make(chan struct{})
		for _, waits := range [][]time.Duration{
			{5 * time.Second, 20 * time.Second}, {time.Second, 2 * time.Second, 100 * time.Second}, {time.Millisecond, time.Hour},
		} {
			r := muxCallOf(t, x)
			go func() {
				for _, until := range waits {
					if _, err := r.Next(begin.Add(until)); err != proxy.ErrNotYet || time.Since(begin) != until {
						t.Errorf("%v after %s, not %s", err, time.Since(begin), until)
					}
				}
				if _, err := r.Next(begin); err != proxy.ErrNotYet {
					t.Errorf("a time that is over: %v", err)
				}
				done <- struct{}{}
			}()
		}
		at(3 * time.Second)
		r := muxCallOf(t, x)
		go func() {
			_ = x.Deliver(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"result":{}}`, r.(*call).n))
		}()
		if m, err := r.Next(begin.Add(4 * time.Second)); err != nil || m.Kind != wire.Result {
			t.Error(err)
		}
		for range 3 {
			<-done
		}
		x.Fail(errors.New("over"))
	})
}

// A call without a deadline is not woken, and no timer runs once no call waits.
func TestMuxTimerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := counting(NewLines(proxy.Modern, &testLines{}, &muxSink{}))
		end := make(chan error)
		r := muxCallOf(t, x)
		go func() {
			_, err := r.Next(time.Time{})
			end <- err
		}()
		if _, err := muxCallOf(t, x).Next(time.Now().Add(time.Second)); err != proxy.ErrNotYet {
			t.Error(err)
		}
		time.Sleep(time.Hour)
		if due := x.clock.due.Load(); due != 0 {
			t.Errorf("a timer runs, until %s", time.Duration(due))
		}
		cause := errors.New("over")
		x.Fail(cause)
		if err := <-end; err != cause {
			t.Error(err)
		}
	})
}

// With many calls deadlines lose precision, but none is exceeded by much.
func TestMuxTimesOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := counting(NewLines(proxy.Modern, &testLines{}, &muxSink{}))
		const many = 1000
		done := make(chan time.Duration)
		for i := range many {
			r, until := muxCallOf(t, x), time.Now().Add(time.Second+time.Duration(i)*time.Microsecond)
			go func() {
				_, err := r.Next(until)
				if err != proxy.ErrNotYet {
					t.Error(err)
				}
				done <- time.Since(until)
			}()
		}
		for range many {
			if late := <-done; late < 0 || late > 2*many*time.Microsecond {
				t.Errorf("%s late", late)
			}
		}
		x.Fail(errors.New("over"))
	})
}

// A call takes little memory of its own.
func TestMuxAllocations(t *testing.T) {
	if racing() {
		t.Skip("pools forget under the race detector")
	}
	x := counting(NewLines(proxy.Modern, &testLines{}, &muxSink{}))
	ex := muxExchange(t, `"own"`, `"tok"`)
	plain, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":"own","method":"tools/call","params":{"name":"a"}}`))
	if err != nil {
		t.Fatal(err)
	}
	got := testing.AllocsPerRun(200, func() {
		ex.Msg = plain
		r, err := x.Call(ex)
		if err != nil {
			t.Fatal(err)
		}
		raw := ex.Msg.Append(make([]byte, 0, 200))
		_ = x.Deliver(append(append(append(raw[:0], `{"jsonrpc":"2.0","id":`...), r.(*call).ID...), `,"result":{}}`...))
		if m, err := r.Next(time.Now().Add(time.Second)); err != nil || string(m.AppendPart(raw[:0], m.ID)) != `"own"` {
			t.Fatalf("%s: %v", m.Raw, err)
		}
		_ = r.Close()
	})
	if got > 2 { // the call; and raw, here
		t.Errorf("%v allocations", got)
	}
}
