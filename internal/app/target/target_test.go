package target

import (
	"errors"
	"testing"
	"time"

	"dragoman/adapters/service"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// A component may look up a target that a reload has removed: a request that was on its way to it as a fallback is refused, and nothing
// else happens.
func TestRemovedTarget(t *testing.T) {
	gone := (&Set{}).Named("gone")
	if gone != nil {
		t.Fatal("there is a target")
	}
	replies, err := gone.do(&proxy.Exchange{})
	var refused *proxy.Error
	if replies != nil || !errors.As(err, &refused) || refused.Fault != proxy.Unreachable {
		t.Errorf("%v, %v", replies, err)
	}
	gone.Trying()
	gone.Tried(time.Now(), errors.New("lost"))
	gone.changed(&wire.Message{})
	if state := gone.State(); state != (service.Dependency{}) {
		t.Errorf("%+v", state)
	}
}
