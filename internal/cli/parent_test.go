package cli

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestParentOf(t *testing.T) {
	for _, c := range []struct {
		environ []string
		pid     int
		err     string
	}{
		{nil, 0, ""},
		{[]string{"DRAGOMAN_PARENT="}, 0, ""},
		{[]string{"HOME=/", "DRAGOMAN_PARENT=41"}, 41, ""},
		{[]string{"DRAGOMAN_PARENT=0"}, 41, ""},
		{[]string{"DRAGOMAN_PARENT=42"}, 0, "process 42 has not started this one, or has ended"},
		{[]string{"DRAGOMAN_PARENT=npm"}, 0, `DRAGOMAN_PARENT is "npm"; fix: write the id`},
		{[]string{"DRAGOMAN_PARENT=-1"}, 0, `DRAGOMAN_PARENT is "-1"; fix: write the id`},
	} {
		pid, err := parentOf(c.environ, 41)
		if pid != c.pid || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%q: %d, %v", c.environ, pid, err)
		}
	}
}

// A process whose parent has gone is interrupted within a second, and one whose parent lives is not.
func TestWithParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var parent atomic.Int64
		parent.Store(41)
		ctx, stop := withParent(t.Context(), 41, func() int { return int(parent.Load()) })
		<-time.After(time.Hour)
		if ctx.Err() != nil {
			t.Fatal("it ended while its parent lived")
		}
		parent.Store(1)
		begun := time.Now()
		<-ctx.Done()
		if late := time.Since(begun); late > parentCheck {
			t.Errorf("it ended %s after its parent", late)
		}
		stop()
		ctx, stop = withParent(t.Context(), 41, func() int { return 41 })
		stop() // waits for its goroutine, which synctest would miss
		if ctx.Err() == nil {
			t.Error("stop has not ended the context")
		}
	})
}
