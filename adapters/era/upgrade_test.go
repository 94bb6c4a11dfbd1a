package era

import (
	"testing"

	"dragoman/adapters/era/input"
	"dragoman/adapters/era/internal/fakeserver"
)

// Progress rises across rounds; within the first it passes unchecked.
func TestProgressRises(t *testing.T) {
	c := &upCall{}
	f := func(progress string, want bool) {
		t.Helper()
		if got := c.progressRises(fakeserver.Scan(t, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":`+progress+`}}`)); got != want {
			t.Errorf("asked %v, %s: %v", c.ask != nil, progress, got)
		}
	}
	f("0.5", true)
	f("0.2", true)
	f(`"none"`, true)
	c.ask = new(input.Inquiry)
	f("0.5", false)
	f("0.50", false)
	f("0.2", false)
	f("0.51", true)
	f("5e-1", false)
	f("1e300", true)
	f("7", false)
	f(`"none"`, true)
}
