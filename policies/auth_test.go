package policies

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Whatever is told in a challenge stays within its quotes, and whatever is asked for does not come back in it.
func TestChallengesAreWellFormed(t *testing.T) {
	a := &Auth{opt: AuthOptions{Tokens: noTokens{}, Resource: "https://r.example/base/"}}
	f := func(path, message, want string) {
		t.Helper()
		err := &proxy.Error{Fault: proxy.BadCredentials, Message: message}
		if got := a.Challenge(err, path, []string{"a", "b"}); got != want {
			t.Errorf("%q %q\n  %s\nwant\n  %s", path, message, got, want)
		}
	}
	const begin = `Bearer realm="dragoman", error="invalid_token", error_description="`
	const end = `", scope="a b", resource_metadata="https://r.example/.well-known/oauth-protected-resource/base`
	f("/mcp", "no", begin+"no"+end+`/mcp"`)
	f("/servers/a-b_1/mcp", "no", begin+"no"+end+`/servers/a-b_1/mcp"`)
	f("/servers/a/messages", "no", begin+"no"+end+`/servers/a/sse"`)
	f("/tools", "a \"b\"\\\r\nX: y \u00e4", begin+"a 'b'X: y "+end+`"`)
	f(`/servers/a", x="/mcp`, "no", begin+"no"+end+`"`)
	f("/servers/a\r\nX: y/mcp", "no", begin+"no"+end+`"`)
}

// A certificate ends in the middle of the connection that was begun with it.
func TestCertificatesExpire(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	a, err := NewAuth(AuthOptions{Certificates: true, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{Subject: pkix.Name{CommonName: "ci"}, NotAfter: now}
	if who, err := a.certified(cert); err != nil || who.Principal != "certificate:cn:ci" {
		t.Errorf("%+v %v", who, err)
	}
	now = now.Add(time.Second)
	if _, err := a.certified(cert); err == nil || err.Name != proxy.BadCredentials.Name || !strings.Contains(err.Message, "has expired") {
		t.Errorf("%v", err)
	}
}

type noTokens struct{ Tokens }

// A key is known by its sum alone, and no other text than the key leads to it.
func TestKeys(t *testing.T) {
	key := NewKey()
	if other := NewKey(); key == other || len(key) != len(KeyPrefix)+52 {
		t.Errorf("%q %q", key, other)
	}
	now := time.Unix(100, 0)
	k, err := NewKeys([]KeyOptions{{Name: "a", Principal: "p", Hashes: []string{strings.ToUpper(HashKey(key)[7:])}}}, nil)
	if err == nil {
		t.Errorf("a hash without its kind: %v", k)
	}
	k, err = NewKeys([]KeyOptions{{Name: "a", Principal: "p", Hashes: []string{HashKey(key)}, Expires: now.Add(time.Second)}}, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	if who, err := k.Find([]byte(key)); err != nil || who.Principal != "p" || who.Rights.Name != "a" {
		t.Errorf("%+v %v", who, err)
	}
	for _, shown := range []string{"", key[:len(key)-1], key + "a", strings.ToUpper(key), HashKey(key), HashKey(key)[7:], strings.Repeat("a", 1<<20)} {
		if who, err := k.Find([]byte(shown)); err == nil {
			t.Errorf("%.80q is %+v", shown, who)
		}
	}
	now = now.Add(time.Second)
	if _, err := k.Find([]byte(key)); err == nil || !strings.Contains(err.Message, "expired") {
		t.Errorf("%v", err)
	}
	if _, err := NewKeys([]KeyOptions{{Name: "a", Hashes: []string{HashKey(key)}}, {Name: "b", Hashes: []string{HashKey(key)}}}, nil); err == nil {
		t.Error("one key of two")
	}
}

// scripted is replies of which a test says: what each call of Next answers.
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

// A request is sent again once, if the token that it went with was given up, and nothing of an answer had come.
func TestAgain(t *testing.T) {
	refused := proxy.Errf(proxy.Refused, "401")
	f := func(what string, drops bool, tries [][]error, direct bool, want error, sent int) {
		t.Helper()
		n, closed, opened, dropped := 0, 0, 0, int64(0)
		h := Again(func() int64 { return dropped })(func(ex *proxy.Exchange) (proxy.Replies, error) {
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
		m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"a"}`))
		if err != nil {
			t.Fatal(err)
		}
		r, err := h(&proxy.Exchange{Msg: m})
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
