package aggregator

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/valyala/fasthttp"
)

// A test of a connection ends after 30 s, and makes room for another one.
func TestTestsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &api{tests: make(chan struct{}, maxTests), opt: Options{Test: func(ctx context.Context, _ *Registration) (Tested, error) {
			<-ctx.Done()
			return Tested{Error: "late"}, nil
		}}}
		ask := func() (status int, err error) {
			var ctx fasthttp.RequestCtx
			ctx.Request.SetBodyString(`{"transport_type":"HTTP","connection_config":{"base_url":"http://x"}}`)
			status, _, err = a.test(&ctx)
			return status, err
		}
		began, done := time.Now(), make(chan int, maxTests)
		for range maxTests {
			go func() {
				status, _ := ask()
				done <- status
			}()
		}
		synctest.Wait()
		if _, err := ask(); err == nil || errors.As(err, new(*Problem)) && err.(*Problem).Status != fasthttp.StatusTooManyRequests { //nolint:errorlint // as the API returns it
			t.Errorf("one too many: %v", err)
		}
		for range maxTests {
			if status := <-done; status != fasthttp.StatusOK {
				t.Error(status)
			}
		}
		if took := time.Since(began); took != 30*time.Second {
			t.Errorf("tests ended after %v", took)
		}
		if status, err := ask(); err != nil || status != fasthttp.StatusOK {
			t.Errorf("%d %v", status, err)
		}
	})
}
