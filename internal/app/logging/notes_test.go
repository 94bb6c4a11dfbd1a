package logging

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
)

// A warning that comes every ten seconds for two hours is logged at growing intervals, with how often it came. Others, and all of
// another level, are logged as they come.
func TestRepeatedWarnings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		note := Notes(zerolog.New(&log))
		for range 720 {
			note("warn", "nobody is there", errors.New("why"))
			time.Sleep(10 * time.Second) // virtual time
		}
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != 7 { // at 0, 1, 3, 7, 15, 31 and 63 minutes
			t.Errorf("%d lines:\n%s", len(lines), log.String())
		}
		if strings.Contains(lines[0], "repeated") || !strings.Contains(lines[1], `"repeated":5`) || !strings.Contains(lines[6], `"repeated":191`) {
			t.Errorf("%s", log.String())
		}
		time.Sleep(3 * time.Hour) // virtual time
		log.Reset()
		note("warn", "nobody is there", nil)
		note("warn", "somebody else", nil)
		note("info", "it is back", nil)
		note("info", "it is back", nil)
		if n := strings.Count(log.String(), "\n"); n != 4 {
			t.Errorf("%s", log.String())
		}
	})
}

// Texts without end do not take memory without end.
func TestRepeatedWarningsAreBounded(t *testing.T) {
	var r repeats
	for i := range 10 * mostWarnings {
		if said, _ := r.say(strings.Repeat("x", i), time.Now()); !said {
			t.Error("it is new")
		}
	}
	if len(r.all) > mostWarnings {
		t.Errorf("%d are kept", len(r.all))
	}
}
