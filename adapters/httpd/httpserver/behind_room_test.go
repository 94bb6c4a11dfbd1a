package httpserver

import (
	"testing"
	"testing/synctest"
	"time"
)

// eager is a connection whose client takes everything at once.
type eager struct{ took int }

func (e *eager) write(p []byte, _ bool) (int, error) { e.took += len(p); return len(p), nil }
func (*eager) takesAtOnce(int) bool                  { return true }
func (*eager) cut()                                  {}

// An event of largeAnswer waits for room before it is written, a smaller one does not, and neither holds any once it has been taken.
func TestEventsThatNeedRoom(t *testing.T) {
	for size, waits := range map[int]time.Duration{largeAnswer - 1: 0, largeAnswer: stallTime} {
		synctest.Test(t, func(t *testing.T) {
			r := newRoom(10, 0)
			r.reserve(r.part("b"), 10) // takes nothing, and gives way after stallTime
			to, own := &eager{}, r.part("a")
			b := &backlog{to: to, answers: &r.answers, part: own}
			began := time.Now()
			if n, err := b.Write(make([]byte, size)); n != size || err != nil || to.took != size || time.Since(began) != waits {
				t.Errorf("%d bytes: %d after %s, %v", size, n, time.Since(began), err)
			}
			if own.bytes != 0 || len(r.open) != map[bool]int{true: 0, false: 1}[waits > 0] {
				t.Errorf("%d bytes: %d have room, %d answers are open", size, own.bytes, len(r.open))
			}
		})
	}
}
