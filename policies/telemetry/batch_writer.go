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

// Bounds on the lines that are gathered.
const (
	linesRoom = 64 << 10 // bytes that wait; as many again may be in a write
	linesTime = 10 * time.Millisecond
)

// BatchWriter gathers the lines of a log and writes them together, because a write for each line costs more than
// everything else about it. A line that comes after 10 ms of silence is written at once. A line of level warn or above
// is written at once, with all that wait. Other lines are written within 10 ms, or as soon as 64 KiB wait. A caller
// that finds no room waits for the write in progress. Lines keep their order. A process that is killed loses the lines
// of its last 10 ms; one that ends must call Close. It implements zerolog.LevelWriter, and is safe for concurrent use.
type BatchWriter struct {
	w     io.Writer
	timer *time.Timer // its goroutine lives only for a write

	out   sync.Mutex // held during a write; taken before mu
	spare []byte     // buffer for the next lines

	mu      sync.Mutex
	waiting []byte
	busy    bool // a line came lately: the timer runs
	closed  bool
	stamp   stamp
}

// NewBatchWriter returns a writer that gathers lines for w, which must accept several lines in one write. The caller
// must call Close.
func NewBatchWriter(w io.Writer) *BatchWriter {
	l := &BatchWriter{w: w}
	l.timer = time.AfterFunc(time.Hour, l.tick)
	l.timer.Stop()
	return l
}

// Write implements io.Writer. A line without a level is written at once.
func (l *BatchWriter) Write(line []byte) (int, error) { return l.WriteLevel(zerolog.NoLevel, line) }

// WriteLevel implements zerolog.LevelWriter. The line must end with a line feed.
func (l *BatchWriter) WriteLevel(level zerolog.Level, line []byte) (int, error) {
	at := l.begin(len(line))
	l.end(append(at, line...), level <= zerolog.InfoLevel)
	return len(line), nil // an error of the write cannot be reported here
}

// begin takes the lock, and returns the waiting lines for one line to be appended. A line of at most most bytes fits
// without growing.
func (l *BatchWriter) begin(most int) []byte {
	l.mu.Lock()
	for len(l.waiting) > 0 && len(l.waiting)+most > linesRoom {
		l.mu.Unlock()
		l.flush()
		l.mu.Lock()
	}
	return l.waiting
}

// end stores the waiting lines, with the new one, and releases the lock. may says that the new line may wait.
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

// tick writes the lines of one interval and waits for the next; without lines it stops.
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

// flush writes the waiting lines.
func (l *BatchWriter) flush() {
	l.out.Lock()
	defer l.out.Unlock()
	l.mu.Lock()
	text := l.waiting
	l.waiting = l.spare[:0]
	l.mu.Unlock()
	if len(text) > 0 {
		_, _ = l.w.Write(text) // an error of the log cannot be logged
	}
	if l.spare = text; cap(text) > 2*linesRoom {
		l.spare = nil
	}
}

// Close writes the waiting lines. Later lines are written at once.
func (l *BatchWriter) Close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.timer.Stop()
	l.flush()
}

// stamp formats times as the log does: RFC 3339 in UTC with milliseconds. It keeps the text of the last second, which
// most lines share.
type stamp struct {
	second int64
	text   [len("2006-01-02T15:04:05.")]byte
}

// append appends a time that is given in nanoseconds since the Unix epoch.
func (s *stamp) append(b []byte, nanos int64) []byte {
	second, ms := nanos/int64(time.Second), nanos%int64(time.Second)/int64(time.Millisecond)
	if second != s.second || second == 0 {
		s.second = second
		time.Unix(second, 0).UTC().AppendFormat(s.text[:0], "2006-01-02T15:04:05.")
	}
	b = append(b, s.text[:]...)
	return append(b, byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10), 'Z')
}

// FastLine is the fast path for the access log's line of a successful request. It writes into the gathered lines, in
// the form that the logger would give the line.
type FastLine struct {
	Out   *BatchWriter // of the logger, which writes JSON
	Level *Level       // of the logger

	asked [8]requestFields // parts written last; the lock of BatchWriter guards them
}

// requestFields is the part of a line that many requests share: what was asked of which server, and by whom.
type requestFields struct {
	who, server string
	about       []byte
	text        []byte // empty: not written yet
}

// answered writes the line of a successful request.
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

// ask returns the part of a line that says what was asked. It is valid for as long as the lock of BatchWriter is held.
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
	*last = requestFields{who: who, server: ex.Target, about: append(last.about[:0], about...), text: b}
	return b
}

// appendPlain appends a text as a JSON string, fast if it needs no escapes.
func appendPlain[T string | []byte](b []byte, text T) []byte {
	at := len(b)
	b = append(append(b, '"'), text...)
	if !plain(b[at+1:]) {
		return wire.AppendText(b[:at], text)
	}
	return append(b, '"')
}

// plain reports whether a text needs no escapes in JSON: printable ASCII without quotes and backslashes. It tests eight
// bytes at a time (Anderson, "Bit Twiddling Hacks": finding a byte in a word).
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

// appendMillis appends a duration in milliseconds, exactly.
func appendMillis(b []byte, d time.Duration) []byte {
	b = strconv.AppendInt(b, int64(d/time.Millisecond), 10)
	rest := uint32(max(0, d%time.Millisecond))
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
