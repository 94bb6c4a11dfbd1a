package access

import (
	"testing"

	"dragoman/proxy"
)

func TestOrigin(t *testing.T) {
	f := func(opt OriginOptions, host, origin string, want bool) {
		t.Helper()
		err := Origin(opt)(&proxy.Head{Host: []byte(host), Origin: []byte(origin)})
		if (err == nil) != want {
			t.Errorf("%+v Host %q Origin %q: %v", opt, host, origin, err)
		}
		if err != nil && err.Status != 403 {
			t.Errorf("status %d", err.Status)
		}
	}
	local := OriginOptions{Loopback: true}
	f(local, "localhost:8080", "", true)
	f(local, "127.0.0.1:8080", "", true)
	f(local, "127.8.9.1", "", true)
	f(local, "[::1]:8080", "", true)
	f(local, "LOCALHOST:8080", "", true)
	f(local, "app.localhost:8080", "", true) // RFC 6761 §6.3: loopback, as in the check of service.host
	f(local, "localhost.:8080", "", false)
	f(local, "app.localhost.", "", false)
	f(local, "[::ffff:127.0.0.1]:8080", "", true)
	f(local, "localhost:8080", "http://app.localhost:3000", true)
	f(local, "app.localhost:8080", "http://evil.example", false)
	f(local, "evillocalhost", "", false)
	f(local, "app.localhost.evil.example", "", false)
	f(local, "localhost:8080", "http://app.localhost.evil.example", false)
	f(local, "evil.example:8080", "", false)
	f(local, "localhost.evil.example", "", false)
	f(local, "", "", false)
	f(local, "localhost:8080", "http://localhost:3000", true)
	f(local, "localhost:8080", "http://evil.example", false)
	f(local, "evil.example", "http://evil.example", false)
	f(local, "localhost:8080", "null", false)
	f(local, "localhost:8080", "file://localhost", false)
	f(OriginOptions{Loopback: true, Hosts: []string{"mcp.test"}}, "mcp.test:1234", "", true)
	f(OriginOptions{Loopback: true, Hosts: []string{"mcp.test"}}, "localhost", "", true)
	open := OriginOptions{}
	f(open, "anything.example", "", true)
	f(open, "a.example:8080", "http://a.example:8080", true)
	f(open, "a.example:8080", "http://b.example:8080", false)
	f(open, "a.example:8080", "http://localhost", false)
	f(open, "a.example:8080", "http://app.localhost", false)
	listed := OriginOptions{Hosts: []string{"a.example"}, Origins: []string{"https://app.example"}}
	f(listed, "a.example", "https://app.example", true)
	f(listed, "b.example", "", false)
}
