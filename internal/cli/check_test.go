package cli

import (
	"net"
	"runtime"
	"strings"
	"testing"

	"dragoman/internal/testkit"
)

// missingUser is the mistake that `config check` reports for a user that does not exist.
func missingUser() string {
	if runtime.GOOS != "linux" {
		return "needs Linux"
	}
	return "upstreams.a: there is no user \"no-such-user\" on this system; create it, or write the number of one"
}

// `config check` refuses what `serve` would refuse, and warns of what may change until then.
func TestConfigCheckIsServe(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	const up = "[upstreams.a]\nurl = \"http://127.0.0.1:1/mcp\"\n"
	for _, tt := range []struct {
		name, toml string
		code       int
		want       string
	}{
		{"nothing wrong", "listen = \"127.0.0.1:0\"\nadmin.listen = \"off\"\n" + up, ExitOK, "is valid"},
		{"one address twice", "listen = \"127.0.0.1:9090\"\n" + up, ExitFailed, "main listener, too"},
		{"one address twice, by name", "listen = \"localhost:9090\"\n" + up, ExitFailed, "main listener, too"},
		{"nobody is asked", "listen = \"0.0.0.0:0\"\n" + up, ExitFailed, "is not loopback"},
		{"an address of another machine", "listen = \"192.0.2.1:8080\"\nadmin.listen = \"off\"\n" + strings.Replace(up, "[", "[security]\nallow_anonymous = true\n[", 1), ExitFailed, "listen: "},
		{"an admin address of another machine", "listen = \"127.0.0.1:0\"\nadmin.listen = \"192.0.2.1:8080\"\n" + up, ExitFailed, "admin.listen: "},
		{"a taken address", "listen = \"" + taken.Addr().String() + "\"\nadmin.listen = \"off\"\n" + up, ExitOK, "is in use"},
		{"a missing command", "listen = \"127.0.0.1:0\"\nadmin.listen = \"off\"\n[upstreams.a]\ncommand = [\"no-such-command\"]\n", ExitOK, "warning: upstreams.a.command: "},
		{"a missing file as command", "listen = \"127.0.0.1:0\"\nadmin.listen = \"off\"\n[upstreams.a]\ncommand = [\"./no/such/file\"]\n", ExitOK, "there is no such file"},
		{"an unknown user", "listen = \"127.0.0.1:0\"\nadmin.listen = \"off\"\n[upstreams.a]\ncommand = [\"true\"]\nuser = \"no-such-user\"\n", ExitFailed, missingUser()},
		{"no upstream", "listen = \"127.0.0.1:0\"\nadmin.listen = \"off\"\n", ExitOK, "no upstream is configured"},
		{"for stdio", "transport_type = \"STDIO\"\nlisten = \"127.0.0.1:9090\"\n" + up, ExitOK, "is valid"},
	} {
		_, code, out, errs := runLine(t, nil, nil, "config", "check", testkit.WriteFile(t, "check.toml", tt.toml))
		if code != tt.code || !strings.Contains(out+errs, tt.want) || (code == ExitOK) != strings.Contains(out, "is valid") {
			t.Errorf("%s: code %d, stdout %q, stderr %q; want %d and %q", tt.name, code, out, errs, tt.code, tt.want)
		}
	}
}
