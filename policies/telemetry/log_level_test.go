package telemetry

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
)

// The level applies to all loggers derived from one, also to those with a sampler, and reverts by itself.
func TestLevel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		level := NewLevel(zerolog.InfoLevel)
		log := level.Logger(zerolog.New(&out).Level(zerolog.ErrorLevel))
		child := log.With().Str("upstream", "a").Logger()
		sampled := log.Sample(&zerolog.BurstSampler{Burst: 100, Period: time.Hour})
		say := func() string {
			t.Helper()
			out.Reset()
			for _, l := range []zerolog.Logger{log, child, sampled} {
				l.Debug().Msg("d")
				l.Info().Msg("i")
				l.WithLevel(zerolog.WarnLevel).Msg("w")
			}
			return strings.Join([]string{"d" + count(&out, `"d"`), "i" + count(&out, `"i"`), "w" + count(&out, `"w"`)}, " ")
		}
		want := func(text string) {
			t.Helper()
			if got := say(); got != text {
				t.Errorf("%s, want %s", got, text)
			}
		}
		want("d0 i3 w3")
		level.SetFor(zerolog.DebugLevel, time.Minute)
		want("d3 i3 w3")
		time.Sleep(time.Minute - time.Nanosecond)
		synctest.Wait()
		if now, fixed, until := level.Now(); now != zerolog.DebugLevel || fixed != zerolog.InfoLevel || until.IsZero() {
			t.Error(now, fixed, until)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		want("d0 i3 w3")
		level.SetFor(zerolog.DebugLevel, time.Minute)
		level.Set(zerolog.WarnLevel) // the last setting counts
		want("d0 i0 w3")
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		want("d0 i0 w3")
		level.SetFor(zerolog.DebugLevel, time.Minute)
		level.SetFor(zerolog.ErrorLevel, 0)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if now, fixed, until := level.Now(); now != zerolog.ErrorLevel || fixed != zerolog.WarnLevel || !until.IsZero() {
			t.Error(now, fixed, until)
		}
		level.SetFor(zerolog.DebugLevel, time.Minute)
		level.Close()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
	})
}

func count(b *bytes.Buffer, what string) string {
	return string(rune('0' + strings.Count(b.String(), what)))
}

// A disabled level costs nothing.
func TestLevelCostsNothing(t *testing.T) {
	level := NewLevel(zerolog.InfoLevel)
	log := level.Logger(zerolog.New(&bytes.Buffer{}))
	if n := testing.AllocsPerRun(100, func() { log.Debug().Str("a", "b").Msg("c") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
