package resilience

import (
	"errors"
	"io"
	"testing"
	"time"

	"dragoman/policies/internal/policytest"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// A request is sent again once if its token was revoked and no part of an answer has come.
func TestReauthorize(t *testing.T) {
	refused := proxy.Errf(proxy.Refused, "401")
	f := func(what string, drops bool, tries [][]error, direct bool, want error, sent int) {
		t.Helper()
		n, closed, opened, dropped := 0, 0, 0, int64(0)
		h := Reauthorize(func() int64 { return dropped })(func(ex *proxy.Exchange) (proxy.Replies, error) {
			if len(ex.Msg.Edits) > 0 {
				t.Errorf("%s: the edits of the first try are still there", what)
			}
			ex.Msg.Replace(ex.Msg.ID, []byte("7"))
			steps := tries[n]
			if n++; drops {
				dropped++
			}
			if direct && len(steps) > 0 && steps[0] != nil {
				return nil, steps[0]
			}
			opened++
			return &scripted{steps, &closed}, nil
		})
		r, err := h(&proxy.Exchange{Msg: policytest.Scan(t, `{"jsonrpc":"2.0","id":1,"method":"a"}`)})
		for err == nil || errors.Is(err, proxy.ErrNotYet) {
			if _, err = r.Next(time.Time{}); errors.Is(err, io.EOF) {
				err = nil
				break
			}
		}
		if r != nil {
			_ = r.Close()
		}
		if !errors.Is(err, want) || n != sent || closed != opened {
			t.Errorf("%s: %v, sent %d times, %d opened, %d closed", what, err, n, opened, closed)
		}
	}
	for _, direct := range []bool{false, true} {
		f("good", true, [][]error{{nil}}, direct, nil, 1)
		f("refused", true, [][]error{{refused}, {nil}}, direct, nil, 2)
		f("refused twice", true, [][]error{{refused}, {refused}}, direct, refused, 2)
		f("refused, though the token holds", false, [][]error{{refused}}, direct, refused, 1)
		f("something else", true, [][]error{{proxy.ErrDraining}}, direct, proxy.ErrDraining, 1)
	}
	f("refused after a while", true, [][]error{{proxy.ErrNotYet, refused}, {nil}}, false, nil, 2)
	f("refused in the middle", true, [][]error{{nil, refused}}, false, refused, 1)
}

// scripted is replies with scripted results of Next.
type scripted struct {
	steps  []error
	closed *int
}

func (s *scripted) Next(time.Time) (m *wire.Message, err error) {
	if len(s.steps) == 0 {
		return m, io.EOF
	}
	err, s.steps = s.steps[0], s.steps[1:]
	return m, err
}

func (s *scripted) Close() error { *s.closed++; return nil }
