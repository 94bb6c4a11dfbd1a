package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"dragoman/internal/config"
	"dragoman/internal/config/value"
)

// parentCheck is how often the parent is looked for: what was left behind has ended a moment later, and an idle proxy stays idle.
const parentCheck = time.Second

// parentOf returns the process that [config.ParentVariable] names and with which this one ends; 0 means none. now is the parent at the start.
func parentOf(environ []string, now int) (pid int, err error) {
	at := slices.IndexFunc(environ, func(pair string) bool { return strings.HasPrefix(pair, config.ParentVariable+"=") })
	if at < 0 {
		return 0, nil
	}
	text := environ[at][len(config.ParentVariable)+1:]
	switch pid, err = strconv.Atoi(text); {
	case text == "":
		return 0, nil
	case err != nil || pid < 0:
		return 0, usagef("%s is %q; fix: write the id of the process that starts dragoman, or 0", config.ParentVariable, value.Shorten(text))
	case pid != 0 && pid != now:
		return 0, failed(fmt.Errorf("process %d has not started this one, or has ended, and %s names it; fix: unset the variable", pid, config.ParentVariable))
	}
	return now, nil
}

// withParent returns a context that ends when process pid is no longer the parent: a killed launcher cannot pass its signal on. stop ends the
// watch and waits for its goroutine. On Windows a parent never changes.
func withParent(parent context.Context, pid int, current func() int) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(parent)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(parentCheck)
		defer tick.Stop()
		for current() == pid {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
		cancel()
	}()
	return ctx, func() {
		cancel()
		<-ended
	}
}
