package transport

import (
	"context"
	"testing"
	"time"

	"dragoman/proxy"
)

// awaiting is a link whose Call waits for the response, which never comes, as in the trial of a server of which nothing is known.
type awaiting struct{}

func (awaiting) Call(ex *proxy.Exchange) (proxy.Replies, error) {
	<-ex.Done()
	return nil, proxy.ErrCancelled
}
func (awaiting) Send(context.Context, []byte) error { return nil }
func (awaiting) Close() error                       { return nil }

// A request of Dragoman's own whose time is over was not cancelled by a client, wherever the link waits.
func TestAskTimesOutInCall(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err := AskLegacy(ctx, awaiting{}, []byte(`{"jsonrpc":"2.0","id":1,"method":"initialize"}`))
	if !proxy.IsFault(err, proxy.UpstreamTimeout) || err.Error() != "upstream_timeout: no answer to initialize in time" {
		t.Errorf("%v", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	if _, err := AskLegacy(ctx, awaiting{}, []byte(`{"jsonrpc":"2.0","id":1,"method":"initialize"}`)); proxy.IsFault(err, proxy.UpstreamTimeout) {
		t.Errorf("cancelled: %v", err)
	}
}
