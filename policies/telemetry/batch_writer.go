package telemetry

import (
	"encoding/binary"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"dragoman/policies"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Bounds of the lines of the log that are gathered.
const (
	linesRoom = 64 << 10 // bytes that wait; as many again may be on their way
	linesTime = 10 * time.Millisecond
)

// BatchWriter gathers the lines of a log that come one upon another, and writes them together: a write for each line costs more than all else that
// is done for it. A line that comes after a silence of 10 ms is written at once, and so is, with all that wait, one of level warn or above;
// the others within 10 ms, or as soon as 64 KiB wait. Who finds no room waits for what is being written. Their order is that in which they
// came. A process that is killed loses what came in its last 10 ms; one that ends calls Close. It implements zerolog.LevelWriter, and may be
// used by many at once.
type BatchWriter struct {
	w     io.Writer
	timer *time.Timer // its goroutine lives as long as a write

	out   sync.Mutex // held by who writes; taken before mu
	spare []byte     // what is gathered into next

	mu      sync.Mutex
	waiting []byte
	busy    bool // a line has come lately: the timer runs
	closed  bool
	stamp   stamp
}

// NewBatchWriter begins to gather lines for w, which must take writes of many lines. Close it.
func NewBatchWriter(w io.Writer) *BatchWriter {
	l := &BatchWriter{w: w}
	l.timer = time.AfterFunc(time.Hour, l.tick)
	l.timer.Stop()
	return l
}

// Write implements io.Writer: of a line whose level nobody has told, it is written at once.
func (l *BatchWriter) Write(line []byte) (int, error) { return l.WriteLevel(zerolog.NoLevel, line) }

// WriteLevel takes a line, which ends with a line feed.
func (l *BatchWriter) WriteLevel(level zerolog.Level, line []byte) (int, error) {
	at := l.begin(len(line))
	l.end(append(at, line...), level <= zerolog.InfoLevel)
	return len(line), nil // what became of it, nobody could be told here
}

// begin takes the lock, and gives what waits, to be appended to: a line of up to most bytes, if it is to find room without growing.
func (l *BatchWriter) begin(most int) []byte {
	l.mu.Lock()
	for len(l.waiting) > 0 && len(l.waiting)+most > linesRoom {
		l.mu.Unlock()
		l.flush()
		l.mu.Lock()
	}
	return l.waiting
}

// end gives the lock back, with what waits now.
func (l *BatchWriter) end(waiting []byte, may bool) {
	l.waiting = waiting
	if may && l.busy && !l.closed {
		l.mu.Unlock()
		return
	}
	if !l.busy && !l.closed {
		l.busy = true
		l.timer.Reset(linesTime)
	}
	l.mu.Unlock()
	l.flush()
}

// tick writes what has come within one time, and waits for another; or nothing has.
func (l *BatchWriter) tick() {
	l.mu.Lock()
	if len(l.waiting) == 0 || l.closed {
		l.busy = false
		l.mu.Unlock()
		return
	}
	l.mu.Unlock()
	l.flush()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.timer.Reset(linesTime)
	}
}

// flush writes what waits.
func (l *BatchWriter) flush() {
	l.out.Lock()
	defer l.out.Unlock()
	l.mu.Lock()
	text := l.waiting
	l.waiting = l.spare[:0]
	l.mu.Unlock()
	if len(text) > 0 {
		_, _ = l.w.Write(text) // a log that cannot be written has nowhere to say so
	}
	if l.spare = text; cap(text) > 2*linesRoom {
		l.spare = nil
	}
}

// Close writes what waits. Lines that come later are written at once.
func (l *BatchWriter) Close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.timer.Stop()
	l.flush()
}

// stamp writes times as the log has them: RFC 3339 in UTC with milliseconds. Most are of the second of the one before.
type stamp struct {
	second int64
	text   [len("2006-01-02T15:04:05.")]byte
}

// append writes a time that is told in nanoseconds of Unix.
func (s *stamp) append(b []byte, nanos int64) []byte {
	second, ms := nanos/int64(time.Second), nanos%int64(time.Second)/int64(time.Millisecond)
	if second != s.second || second == 0 {
		s.second = second
		time.Unix(second, 0).UTC().AppendFormat(s.text[:0], "2006-01-02T15:04:05.")
	}
	b = append(b, s.text[:]...)
	return append(b, byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10), 'Z')
}

// FastLine is the short way of a line of the access log that says no more than that a request was answered: into the lines that are gathered,
// in the form that the logger would give it.
type FastLine struct {
	Out   *BatchWriter // of the logger, which writes JSON
	Level *Level       // of the logger

	asked [8]inquiry // what was written last; the lock of BatchWriter guards it
}

// inquiry is the part of a line that many have the same: what was asked of which server, and by whom.
type inquiry struct {
	who, server string
	about       []byte
	text        []byte // empty: there is none yet
}

// answered writes the line of a request that was answered well.
func (d *FastLine) answered(a *logged) {
	a.done = true
	if !d.Level.Sample(a.success) {
		return
	}
	const usual = 1 << 10 // bytes
	ex, lasted := a.ex, a.ex.Clock.Since(a.began)
	b := d.Out.begin(usual)
	if a.success == zerolog.InfoLevel {
		b = append(b, `{"level":"info","request":`...)
	} else {
		b = append(append(append(b, `{"level":"`...), a.success.String()...), `","request":`...)
	}
	if ex.PendingID() {
		b = append(ex.Arrival.AppendID(append(b, '"')), '"')
	} else {
		b = appendPlain(b, ex.ID())
	}
	if method := ex.Msg.Text(ex.Msg.Method); ex.Client.Era == proxy.Modern && string(method) == toolsCall {
		b = append(b, `,"method":"`+toolsCall+`","era":"modern","ms":`...)
	} else {
		b = appendPlain(append(b, `,"method":`...), method)
		b = append(append(append(b, `,"era":"`...), ex.Client.Era.String()...), `","ms":`...)
	}
	b = append(appendMillis(b, lasted), d.ask(ex)...)
	if ex.Session != nil {
		b = appendPlain(append(b, `,"session":`...), ex.Session.ID[:6])
	}
	b = append(b, `,"outcome":"ok","time":"`...)
	b = d.Out.stamp.append(b, a.began.UnixNano()+int64(lasted))
	d.Out.end(append(b, `","message":"`+answeredWell+`"}`+"\n"...), true)
}

// ask gives what a line says of what was asked. It is good for as long as the lock of BatchWriter is held.
func (d *FastLine) ask(ex *proxy.Exchange) []byte {
	about, who := policies.AboutBytes(&ex.Msg), ex.Caller.Principal
	last := &d.asked[(len(about)+len(who))%len(d.asked)]
	if last.who == who && last.server == ex.Target && string(last.about) == string(about) {
		return last.text
	}
	b := last.text[:0]
	if len(about) > 0 {
		b = appendPlain(append(b, `,"about":`...), about)
	}
	if who != "" {
		b = appendPlain(append(b, `,"principal":`...), who[:min(len(who), policies.MaxText)])
	}
	if ex.Target != "" {
		b = appendPlain(append(b, `,"server":`...), ex.Target)
	}
	*last = inquiry{who: who, server: ex.Target, about: append(last.about[:0], about...), text: b}
	return b
}

// appendPlain writes a text as JSON, most likely one of letters and digits.
func appendPlain[T string | []byte](b []byte, text T) []byte {
	at := len(b)
	b = append(append(b, '"'), text...)
	if !plain(b[at+1:]) {
		return wire.AppendText(b[:at], text)
	}
	return append(b, '"')
}

// plain tells whether a text stands for itself in JSON: printable ASCII without quotes and backslashes. It looks at eight bytes at a time, as
// "Bit Twiddling Hacks" (Anderson) finds a byte in a word.
func plain(text []byte) bool {
	const ones, tops, word = 0x0101010101010101, 0x8080808080808080, 8
	odd := func(w uint64) uint64 {
		quote, slash, del := w^'"'*ones, w^'\\'*ones, w^0x7f*ones
		return w | (w - ' '*ones) | (quote - ones) | (slash - ones) | (del - ones)
	}
	switch last := len(text) - word; {
	case last >= 0:
		all := odd(binary.LittleEndian.Uint64(text[last:])) // it may overlap the one before
		for at := 0; at < last; at += word {
			all |= odd(binary.LittleEndian.Uint64(text[at:]))
		}
		return all&tops == 0
	case last >= -word/2: // two halves that may overlap
		w := uint64(binary.LittleEndian.Uint32(text[len(text)-word/2:]))<<32 | uint64(binary.LittleEndian.Uint32(text))
		return odd(w)&tops == 0
	}
	for _, c := range text {
		if c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// appendMillis writes a time in milliseconds, exactly.
func appendMillis(b []byte, d time.Duration) []byte {
	b = strconv.AppendInt(b, int64(d/time.Millisecond), 10)
	rest := uint32(max(0, d%time.Millisecond)) //nolint:gosec // it is less than a million
	if rest == 0 {
		return b
	}
	digits := 6 // of a millisecond, in nanoseconds
	for rest%10 == 0 {
		rest, digits = rest/10, digits-1
	}
	text := [...]byte{'.', 0, 0, 0, 0, 0, 0}
	for i := digits; i > 0; i-- {
		text[i], rest = byte('0'+rest%10), rest/10
	}
	return append(b, text[:1+digits]...)
}
