package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// hides hides one text.
func hides(_ context.Context, text string) string { return strings.ReplaceAll(text, "5ecret", "***") }

// An error keeps what it is, and loses the secret at every place.
func TestHideError(t *testing.T) {
	status := &StatusError{Status: 500, Text: "you sent 5ecret", Location: "/5ecret"}
	ours := proxy.Errf(proxy.HTTPStatus, "it answered %w", status)
	ours.Data, ours.RetryAfter = []byte(`{"a":"5ecret"}`), 3
	for _, err := range []error{ours, fmt.Errorf("around: %w", ours), errors.Join(io.EOF, ours), &proxy.Error{Fault: proxy.HTTPStatus, Message: "x", Cause: ours}} {
		got := Hide(hides).Error(t.Context(), err)
		e, s := (*proxy.Error)(nil), (*StatusError)(nil)
		if !errors.As(got, &e) || !errors.As(got, &s) || e.Name != proxy.HTTPStatus.Name || s.Status != 500 || errors.Is(err, io.EOF) != errors.Is(got, io.EOF) {
			t.Fatalf("%#v", got)
		}
		if text := fmt.Sprint(got, e.Message, string(e.Data), e.Cause, s.Text, s.Location, errors.Unwrap(got)); strings.Contains(text, "5ecret") {
			t.Errorf("%T: %s", err, text)
		}
	}
	if ours.Message != "it answered HTTP 500, a redirect to /5ecret" || status.Text != "you sent 5ecret" || string(ours.Data) != `{"a":"5ecret"}` {
		t.Errorf("the error itself was changed: %v", ours)
	}
	if got := Hide(hides).Error(t.Context(), ours); got.(*proxy.Error).RetryAfter != 3 {
		t.Errorf("%#v", got)
	}
	for _, err := range []error{nil, io.EOF, proxy.ErrNotYet, proxy.Errf(proxy.Lost, "a"), &StatusError{Status: 401}, fmt.Errorf("%w", io.EOF)} {
		if got := Hide(hides).Error(t.Context(), err); got != err {
			t.Errorf("%v became %v", err, got)
		}
		if got := Hide(nil).Error(t.Context(), err); got != err {
			t.Errorf("%v became %v", err, got)
		}
	}
}

// saying is a link whose calls answer with messages, and then with an error.
type saying struct {
	Link
	all []string
	err error
}

func (s saying) Call(*proxy.Exchange) (proxy.Replies, error) {
	return &said{all: s.all, err: s.err}, nil
}
func (s saying) Send(_ context.Context, _ []byte) error     { return s.err }
func (s *said) Close() error                                { return nil }
func (s saying) dial(context.Context, Sink) (Link, error)   { return s, nil }
func (s saying) refuse(context.Context, Sink) (Link, error) { return nil, s.err }

type said struct {
	all []string
	err error
}

func (s *said) Next(time.Time) (*wire.Message, error) {
	if len(s.all) == 0 {
		return nil, s.err
	}
	m, err := wire.Scan([]byte(s.all[0]))
	s.all = s.all[1:]
	return &m, err
}

// A link hides secrets in errors of the server, at each place, and in nothing else.
func TestHideDial(t *testing.T) {
	server := saying{all: []string{
		`{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"5ecret"}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"a":"5ecret"}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"not 5ecret","data":{"5ecret":["\u0035ecret",1]}}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"plain"}}`,
	}, err: errors.New("it said 5ecret")}
	link, err := Hide(hides).Dial(server.dial)(t.Context(), Discard{})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := As[saying](link); !ok {
		t.Error("the link behind it is not found")
	}
	ex := &proxy.Exchange{}
	replies, err := link.Call(ex)
	if err != nil {
		t.Fatal(err)
	}
	if of, ok := RepliesAs[*said](replies); !ok || len(of.all) != len(server.all) {
		t.Error("the replies behind it are not found")
	}
	if _, ok := RepliesAs[Stateful](replies); ok {
		t.Error("replies are what they are not")
	}
	want := []string{server.all[0], server.all[1],
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"not ***","data":{"***":["***",1]}}}`, server.all[3]}
	for _, text := range want {
		if m, err := replies.Next(time.Time{}); err != nil || string(m.Append(nil)) != text || m.Kind == wire.Failure && !strings.Contains(text, string(m.Text(m.ErrorText))) {
			t.Errorf("%v, %v, want %s", m, err, text)
		}
	}
	if _, err := replies.Next(time.Time{}); err == nil || err.Error() != "it said ***" {
		t.Error(err)
	}
	if err := link.Send(t.Context(), nil); err == nil || err.Error() != "it said ***" {
		t.Error(err)
	}
	if _, err := Hide(hides).Dial(server.refuse)(t.Context(), Discard{}); err == nil || err.Error() != "it said ***" {
		t.Error(err)
	}
	if Hide(hides).Dial(nil) != nil {
		t.Error("a way that there is not has become one")
	}
}

// The policy hides secrets in the error of a call that has no replies, and in that of replies.
func TestHidePolicy(t *testing.T) {
	server := saying{err: errors.New("it said 5ecret")}
	fails := func(*proxy.Exchange) (proxy.Replies, error) { return nil, server.err }
	if _, err := Hide(hides).Policy(fails)(&proxy.Exchange{}); err == nil || err.Error() != "it said ***" {
		t.Error(err)
	}
	replies, err := Hide(hides).Policy(server.Call)(&proxy.Exchange{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := replies.Next(time.Time{}); err == nil || err.Error() != "it said ***" {
		t.Error(err)
	}
	none := func(*proxy.Exchange) (proxy.Replies, error) { return nil, nil } // a notification has no replies
	if replies, err := Hide(hides).Policy(none)(&proxy.Exchange{}); replies != nil || err != nil {
		t.Error(replies, err)
	}
	if _, err := Hide(nil).Policy(fails)(&proxy.Exchange{}); err != server.err {
		t.Error(err)
	}
}
