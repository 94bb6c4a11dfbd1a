package era

import (
	"errors"
	"strings"
	"testing"
	"time"

	"dragoman/adapters/era/internal/fakeserver"
	"dragoman/adapters/era/seal"
	"dragoman/proxy"
)

// A state belongs to its principal: for another it is invalid, and the error does not say why (vector 62).
func TestStateOfAnotherPrincipal(t *testing.T) {
	s := &fakeServer{}
	u := newPooled(t, s, 10, time.Hour)
	retry := func(who, sealed string) (string, error) {
		ex := modernExchange(t, who, `{"name":"n"}`, `{"elicitation":{"url":{}}}`)
		state := u.store.Sealer().Seal(seal.URLs, []byte("\x01"+`{"u1-1":{"method":"elicitation/create","params":{"mode":"url","url":"x:"}}}`),
			seal.Binding(modernExchange(t, sealed, `{"name":"other"}`, `{}`), "up"), time.Now().Add(time.Hour))
		raw := strings.Replace(string(ex.Msg.Raw), `"arguments":{}`, `"arguments":{},"requestState":"`+state+`"`, 1)
		ex.Msg = *fakeserver.Scan(t, raw)
		replies, err := u.Do(ex)
		if err != nil {
			return "", err
		}
		m, err := proxy.Response(replies, time.Now().Add(5*time.Second))
		return string(m.Raw), err
	}
	if got, err := retry("alice", "alice"); err != nil || !strings.Contains(got, `"inputRequests":{"u1-1":`) {
		t.Errorf("%s %v", got, err)
	}
	for _, who := range []string{"bob", "", "alice "} {
		_, err := retry(who, "alice")
		var e *proxy.Error
		if !errors.As(err, &e) || e.Name != proxy.BadState.Name || e.Status != 400 || e.Message != seal.BadState().Message {
			t.Errorf("%q: %v", who, err)
		}
	}
}
