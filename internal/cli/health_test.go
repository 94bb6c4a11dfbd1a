package cli

import (
	"bufio"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-json"
	"github.com/valyala/fasthttp"

	"dragoman/internal/app"
	"dragoman/internal/testkit"
)

// adminTalk is an admin listener with answers of the test, for one connection after the other.
func adminTalk(t *testing.T, answers map[string]func(*fasthttp.Response)) (address string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			var req fasthttp.Request
			var resp fasthttp.Response
			resp.SetStatusCode(fasthttp.StatusNotFound)
			if err := req.Read(bufio.NewReader(conn)); err != nil {
				t.Error(err)
			}
			if f := answers[string(req.URI().Path())]; f != nil {
				f(&resp)
			}
			if _, err := resp.WriteTo(conn); err != nil {
				t.Error(err)
			}
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = ln.Close()
		<-ended
	})
	return ln.Addr().String()
}

func says(status int, body string) func(*fasthttp.Response) {
	return func(resp *fasthttp.Response) {
		resp.SetStatusCode(status)
		resp.SetBodyString(body)
	}
}

// Every result of `dragoman health`, with its exit code.
func TestHealth(t *testing.T) {
	well := adminTalk(t, map[string]func(*fasthttp.Response){"/readyz": says(200, `{"status":"ok","checks":[{"name":"upstream a","ready":true}]}`),
		"/healthz": says(200, `{"status":"ok"}`)})
	ill := adminTalk(t, map[string]func(*fasthttp.Response){"/healthz": says(200, `{"status":"ok"}`),
		"/readyz": says(503, `{"status":"not ready","checks":[{"name":"upstream a","ready":true},{"name":"upstream b","ready":false,"why":"nobody is there","state":"ERROR"}]}`)})
	part := adminTalk(t, map[string]func(*fasthttp.Response){
		"/readyz": says(200, `{"status":"degraded","checks":[{"name":"upstream a","ready":true},{"name":"upstream b","ready":false,"why":"nobody is there","state":"ERROR"}]}`)})
	draining := adminTalk(t, map[string]func(*fasthttp.Response){"/readyz": says(503, `{"status":"not ready"}`)})
	other := adminTalk(t, map[string]func(*fasthttp.Response){"/readyz": says(200, "hello")})
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	nobody := testkit.HeldAddress(t)
	f := func(wantCode int, want string, environ []string, args ...string) {
		t.Helper()
		_, code, out, errs := runLine(t, environ, nil, append([]string{"health"}, args...)...)
		if code != wantCode || !strings.Contains(out+errs, want) || code == ExitOK && errs != "" && want != errs {
			t.Errorf("%q %q: code %d, stdout %q, stderr %q; want %d and %q", environ, args, code, out, errs, wantCode, want)
		}
	}
	f(ExitOK, "ready\n", nil, "--admin", well)
	f(ExitOK, "alive\n", nil, "--admin", well, "--live")
	f(ExitOK, "alive\n", nil, "--admin", ill, "--live")
	f(ExitFailed, "not ready: upstream b ERROR: nobody is there\n", nil, "--admin", ill)
	f(ExitOK, "ready, without upstream b ERROR: nobody is there\n", nil, "--admin", part)
	f(ExitFailed, "not ready: status 503", nil, "--admin", draining)
	f(ExitFailed, "like no admin listener", nil, "--admin", other)
	f(ExitFailed, "like no admin listener", nil, "--admin", other, "--live")
	f(ExitFailed, nobody+" does not answer", nil, "--admin", nobody)
	f(ExitFailed, "does not answer: context deadline exceeded", nil, "--admin", silent.Addr().String(), "--timeout", "20ms")
	f(ExitFailed, "the admin listener is off", nil, "--admin", "off")
	f(ExitUsage, "--timeout: 0s is out of bounds", nil, "--timeout", "0s")
	f(ExitUsage, "unexpected argument", nil, "127.0.0.1:9090")
	f(ExitUsage, "--admin", nil, "--admin", "9090")

	// The sources of the address. A file with mistakes is one that serve has refused.
	wrong := testkit.WriteFile(t, "wrong.toml", "keepalife = \"1s\"\nadmin.listen = \""+well+"\"\n[upstreams.a]\nurl = \"file:/nowhere\"\n")
	garbage := testkit.WriteFile(t, "garbage.toml", "admin.listen = ")
	bad := testkit.WriteFile(t, "bad.yaml", "admin: { listen: 9090 }\n")
	f(ExitOK, "ready\n", nil, "--config", wrong)
	f(ExitOK, "ready\n", []string{"DRAGOMAN_CONFIG=" + wrong})
	f(ExitFailed, "not ready", []string{"DRAGOMAN_ADMIN_LISTEN=" + ill}, "--config", wrong)
	f(ExitOK, "ready\n", []string{"DRAGOMAN_ADMIN_LISTEN=" + ill}, "--config", wrong, "--admin", well)
	f(ExitOK, "ready\n", []string{"DRAGOMAN_ADMIN_LISTEN=" + well, "DRAGOMAN_NONSENSE=1"}, "--config", garbage)
	f(ExitOK, "ready\n", []string{"DRAGOMAN_ADMIN_LISTEN=" + well}, "--config", bad)
	f(ExitOK, "ready\n", []string{"DRAGOMAN_ADMIN_LISTEN=" + well}, "--config", filepath.Join(t.TempDir(), "none.toml"))
	f(ExitFailed, "9090", []string{"DRAGOMAN_ADMIN_LISTEN=9090"})

	// A listener on every interface is reached over the loopback.
	_, port, _ := net.SplitHostPort(well)
	f(ExitOK, "ready\n", nil, "--admin", "0.0.0.0:"+port)
	f(ExitOK, "ready\n", nil, "--admin", ":"+port)
}

// A line for each server, whether the whole is ready or not.
func TestStatus(t *testing.T) {
	well := adminTalk(t, map[string]func(*fasthttp.Response){"/readyz": says(200, `{"status":"ok","checks":[{"name":"upstream a","ready":true,"state":"CONNECTED"},{"name":"upstream long-name","ready":true,"state":"CONNECTED"}]}`)})
	part := adminTalk(t, map[string]func(*fasthttp.Response){
		"/readyz": says(200, `{"status":"degraded","checks":[{"name":"upstream a","ready":true,"state":"CONNECTED"},{"name":"upstream b","ready":false,"why":"nobody \u001b[31m is\nthere","state":"ERROR"}]}`)})
	f := func(wantCode int, want string, args ...string) {
		t.Helper()
		_, code, out, errs := runLine(t, nil, nil, append([]string{"status"}, args...)...)
		if code != wantCode || out+errs != want {
			t.Errorf("%q: code %d\n%s%s\nwant %d\n%s", args, code, out, errs, wantCode, want)
		}
	}
	f(ExitOK, "SERVER     STATE      \na          CONNECTED  \nlong-name  CONNECTED  \n", "--admin", well)
	f(ExitFailed, "SERVER  STATE      \na       CONNECTED  \nb       ERROR      nobody \\u001b[31m is\\nthere\n", "--admin", part)
	f(ExitFailed, "dragoman: status: the admin listener is off; fix: give it an address with --admin HOST:PORT, or DRAGOMAN_ADMIN_LISTEN\n", "--admin", "off")
	_, code, out, _ := runLine(t, nil, nil, "status", "--json", "--admin", part)
	var said readiness
	if err := json.Unmarshal([]byte(out), &said); err != nil || code != ExitFailed || len(said.Checks) != 2 || said.Checks[1].State != "ERROR" {
		t.Errorf("%d, %v: %s", code, err, out)
	}
}

// A file that cannot be read is reported, and the default address is used.
func TestHealthUnreadFile(t *testing.T) {
	var errs strings.Builder
	p := &program{std: app.Streams{Err: &errs}}
	got, err := p.adminAddress("", filepath.Join(t.TempDir(), "none.toml"))
	if err != nil || got != "127.0.0.1:9090" || !strings.Contains(errs.String(), "none.toml") {
		t.Errorf("%q, %v, stderr %q", got, err, errs.String())
	}
}
