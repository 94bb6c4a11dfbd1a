package httpcall

import (
	"io"
	"net/http"
	"testing"

	"dragoman/adapters/httpd/httpclient"
	"dragoman/internal/testkit"
)

// Calls under way do not count against the acknowledgements that are waited for. Beyond the bound, the oldest of the others is given up.
func TestAcksOfCallsUnderWay(t *testing.T) {
	posts := make(chan *testkit.Held, 100)
	var srv *testkit.HoldingServer
	srv = testkit.NewHoldingServer(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // or the server does not notice that the client leaves
		srv.Hold(w, r, body, posts)
	})
	host, err := httpclient.NewHost(httpclient.HostOptions{URL: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = host.Close() })
	var acks Acks
	t.Cleanup(acks.Close)
	type verdict struct {
		came bool
		err  error
	}
	send := func(open func() bool) (*testkit.Held, <-chan verdict) {
		ans, err := host.Send(t.Context(), NewRequest(http.MethodPost, "/", []byte("{}")))
		if err != nil {
			t.Fatal(err)
		}
		result := make(chan verdict, 1)
		acks.Await(ans, open, func(came bool, err error) { result <- verdict{came, err} })
		return testkit.Receive(t, "the message", posts), result
	}
	var last *testkit.Held
	var ended <-chan verdict
	for range maxAcks + 1 {
		last, ended = send(func() bool { return true })
	}
	first, told := send(nil)
	for range maxAcks - 1 {
		send(nil)
	}
	first.Status <- http.StatusAccepted
	if got := testkit.Receive(t, "the acknowledgement", told); !got.came || got.err != nil {
		t.Errorf("%+v", got)
	}
	testkit.Receive(t, "the end of its exchange", first.Gone)

	oldest, lost := send(nil)
	for range maxAcks {
		send(nil)
	}
	if got := testkit.Receive(t, "the end of the wait", lost); got.came || got.err != nil {
		t.Errorf("%+v", got)
	}
	testkit.Receive(t, "the end of its connection", oldest.Gone)
	last.Status <- http.StatusBadRequest
	if got := testkit.Receive(t, "the refusal", ended); !got.came || got.err == nil {
		t.Errorf("%+v", got)
	}

	acks.Close()
	ans, err := host.Send(t.Context(), NewRequest(http.MethodPost, "/", []byte("{}")))
	if err != nil {
		t.Fatal(err)
	}
	acks.Await(ans, nil, func(came bool, err error) {
		if told = nil; came || err != nil {
			t.Errorf("after the end: %v, %v", came, err)
		}
	})
	if told != nil {
		t.Error("no result after the end")
	}
}
