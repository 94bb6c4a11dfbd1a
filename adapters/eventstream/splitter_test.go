package eventstream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// kept is an Event that owns its bytes, in a form that compares.
type kept struct {
	Name, Data, ID string
	HasData, HasID bool
	Retry          int
}

func keep(e Event) kept {
	return kept{
		Name: string(e.Name), Data: string(e.Data), ID: string(e.ID),
		HasData: e.Data != nil, HasID: e.HasID, Retry: e.Retry,
	}
}

// chunks reads a text in pieces of the given lengths; the last length repeats.
type chunks struct {
	in    []byte
	sizes []int
}

func (c *chunks) Read(p []byte) (int, error) {
	if len(c.in) == 0 {
		return 0, io.EOF
	}
	n := min(len(c.in), len(p), c.sizes[0])
	if len(c.sizes) > 1 {
		c.sizes = c.sizes[1:]
	}
	copy(p, c.in[:n])
	c.in = c.in[n:]
	return n, nil
}

// all reads every event, and continues after passed deadlines.
func all(s *Splitter, r io.Reader) ([]kept, error) {
	var out []kept
	for {
		e, err := s.Next(r)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			continue
		}
		if err != nil {
			return out, err
		}
		out = append(out, keep(e))
	}
}

// naive is the standard's algorithm in its plainest form, with our one addition: blocks that have only an id or a retry are returned.
func naive(in string) ([]kept, error) {
	in = strings.TrimPrefix(in, "\ufeff")
	in = strings.ReplaceAll(strings.ReplaceAll(in, "\r\n", "\n"), "\r", "\n")
	lines := strings.Split(in, "\n")
	rest := lines[len(lines)-1]
	var out []kept
	event, fields := kept{Retry: -1}, 0
	for _, line := range lines[:len(lines)-1] {
		if line == "" {
			if event.HasData || event.HasID || event.Retry >= 0 {
				out = append(out, event)
			}
			event, fields = kept{Retry: -1}, 0
			continue
		}
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "data":
			if event.HasData {
				event.Data += "\n"
			}
			event.Data, event.HasData = event.Data+value, true
			fields++
		case "event":
			event.Name = value
			fields++
		case "id":
			if !strings.Contains(value, "\x00") {
				event.ID, event.HasID = value, true
				fields++
			}
		case "retry":
			if value != "" && strings.Trim(value, "0123456789") == "" {
				n, err := strconv.Atoi(value)
				if err != nil || n > 1<<31-1 {
					n = 1<<31 - 1
				}
				event.Retry = n
				fields++
			}
		}
	}
	if fields > 0 || rest != "" && rest[0] != ':' {
		return out, io.ErrUnexpectedEOF
	}
	return out, io.EOF
}

// splits checks the reference and the Splitter, in pieces of every size.
func splits(t *testing.T, in string, wantErr error, want ...kept) {
	t.Helper()
	for i := range want {
		if want[i].Retry == 0 {
			want[i].Retry = -1
		}
	}
	if got, err := naive(in); !reflect.DeepEqual(got, want) || err != wantErr {
		t.Errorf("naive(%q)\n got %+v, %v\nwant %+v, %v", in, got, err, want, wantErr)
	}
	for size := 1; size <= len(in)+1; size++ {
		var s Splitter
		got, err := all(&s, &chunks{in: []byte(in), sizes: []int{size}})
		if !reflect.DeepEqual(got, want) || err != wantErr {
			t.Errorf("%q in pieces of %d\n got %+v, %v\nwant %+v, %v", in, size, got, err, want, wantErr)
		}
	}
}

func TestSplitter(t *testing.T) {
	f := func(in string, wantErr error, want ...kept) {
		t.Helper()
		splits(t, in, wantErr, want...)
	}
	a := kept{Data: "a", HasData: true}
	b := kept{Data: "b", HasData: true}
	f("", io.EOF)
	f("data: a\n\n", io.EOF, a)
	f("data:a\n\ndata: b\n\n", io.EOF, a, b)
	f("data: a\r\n\r\ndata: b\r\n\r\n", io.EOF, a, b)
	f("data: a\r\rdata: b\r\r", io.EOF, a, b)
	f("data: a\r\n\ndata: b\n\r\n", io.EOF, a, b)
	f("data: a\n\r\n\r\n\n\rdata: b\r\r\n", io.EOF, a, b)
	f("\ufeffdata: a\n\n", io.EOF, a)
	f("\ufeff\ufeffdata: a\n\n", io.EOF)
	f("data: \ufeff\n\n", io.EOF, kept{Data: "\ufeff", HasData: true})
	f("\xef\xbbdata: a\n\n", io.EOF)
	f("\xef\xbb", io.ErrUnexpectedEOF)
	f("\ufeff", io.EOF)
	f(": hello\n\n:\n:x\ndata: a\n: between\n\n", io.EOF, a)
	f("data: a\ndata: b\n\n", io.EOF, kept{Data: "a\nb", HasData: true})
	f("data: a\nevent: longer name\nid: 12\ndata: b\n: c\ndata:\ndata\n\n", io.EOF,
		kept{Name: "longer name", Data: "a\nb\n\n", HasData: true, ID: "12", HasID: true})
	f("data\n\n", io.EOF, kept{HasData: true})
	f("data:\n\n", io.EOF, kept{HasData: true})
	f("data: \n\n", io.EOF, kept{HasData: true})
	f("data\ndata\ndata\n\n", io.EOF, kept{Data: "\n\n", HasData: true})
	f("data:  two\n\n", io.EOF, kept{Data: " two", HasData: true})
	f("data:\ttab\n\n", io.EOF, kept{Data: "\ttab", HasData: true})
	f("data : a\nDATA: a\ndatas: a\ndat: a\nunknownfield: a\n\n", io.EOF)
	f("event: x\n\ndata: a\n\n", io.EOF, a)
	f("event: x\nevent\ndata: a\n\n", io.EOF, a)
	f("event: message\ndata: a\n\n", io.EOF, kept{Name: "message", Data: "a", HasData: true})
	f("id: 7\n\n", io.EOF, kept{ID: "7", HasID: true})
	f("id\ndata: a\n\n", io.EOF, kept{HasID: true, Data: "a", HasData: true})
	f("id: 7\nid: x\x00y\ndata: a\n\n", io.EOF, kept{ID: "7", HasID: true, Data: "a", HasData: true})
	f("id: \x00\ndata: a\n\n", io.EOF, a)
	f("retry: 1500\n\n", io.EOF, kept{Retry: 1500})
	f("retry: 99999999999999999999999\n\n", io.EOF, kept{Retry: 1<<31 - 1})
	f("retry: -1\nretry: 1s\nretry:\nretry\ndata: a\n\n", io.EOF, a)
	f("data: a\n\ndata: b", io.ErrUnexpectedEOF, a)
	f("data: a\n\ndata: b\n", io.ErrUnexpectedEOF, a)
	f("data: a\n\nevent: b\n", io.ErrUnexpectedEOF, a)
	f("data: a\n\nid: b\r", io.ErrUnexpectedEOF, a)
	f("data: a\n\n: keep", io.EOF, a)
	f("data: a\n\n: keep\n", io.EOF, a)
	f("data: a\n\nd", io.ErrUnexpectedEOF, a)
}

// A line that is no data has a limit of its own, however large events may be.
func TestSplitterOtherLines(t *testing.T) {
	for _, size := range []int{1 << 10, 1 << 20} {
		for _, field := range []string{":", "event:", "id:", "anything"} {
			whole, over := strings.Repeat("x", otherLines-len(field)), field+strings.Repeat("x", otherLines+1-len(field))
			for in, want := range map[string]bool{field + whole + "\ndata: a\n\n": false, over: true, over + "\ndata: a\n\n": true, "data: a\n" + over + "\n\n": true} {
				var s Splitter
				s.Reset(DefaultMax)
				_, err := s.Next(&chunks{in: []byte(in), sizes: []int{size}})
				limit, failed := errors.AsType[*LimitError](err)
				if failed != want || failed && (!limit.Line || limit.Limit != otherLines || !strings.Contains(err.Error(), "no data exceeds 65536")) {
					t.Errorf("%.10q of %d bytes: %v", in, len(in), err)
				}
			}
		}
		var s Splitter
		s.Reset(DefaultMax)
		if _, err := s.Next(&chunks{in: []byte("data: " + strings.Repeat("x", 1<<20) + "\n\n"), sizes: []int{size}}); err != nil {
			t.Errorf("data: %v", err)
		}
	}
}

func TestSplitterLimit(t *testing.T) {
	f := func(in string, max int, events int, tooLarge bool) {
		t.Helper()
		for _, size := range []int{1, 2, 3, 7, 64, 1000, 1 << 20} {
			var s Splitter
			s.Reset(max)
			r := &chunks{in: []byte(in), sizes: []int{size}}
			got, err := all(&s, r)
			var limit *LimitError
			if errors.As(err, &limit) != tooLarge || len(got) != events {
				t.Fatalf("%.40q, limit %d, pieces of %d: %d events, %v", in, max, size, len(got), err)
			}
			if room := max + fieldName + minRead; len(s.buf) > room {
				t.Fatalf("limit %d: buffer of %d bytes, want at most %d", max, len(s.buf), room)
			}
			if !tooLarge {
				continue
			}
			if limit.Limit != max || !strings.Contains(err.Error(), strconv.Itoa(max)) {
				t.Fatalf("error does not name the limit %d: %v", max, err)
			}
			if _, again := s.Next(r); again != err {
				t.Fatalf("after %v: %v", err, again)
			}
		}
	}
	x := strings.Repeat("x", 10000)
	f("data: "+x+"\n\n", 10000, 1, false)
	f("data: "+x+"\n\n", 9999, 0, true)
	f("data:"+x+"\n\n", 9999, 0, true)
	f("data: a\n\ndata: "+x+"\n\n", 9999, 1, true)
	f("data: "+x+"\ndata: "+x+"\n\n", 20001, 1, false)
	f("data: "+x+"\ndata: "+x+"\n\n", 20000, 0, true)
	f(strings.Repeat("data\n", 10001)+"\n", 10000, 1, false)
	f(strings.Repeat("data\n", 10002)+"\n", 10000, 0, true)
	f(": "+x, 9000, 0, true)
	f("event: "+x+"\n\n", 9000, 0, true)
	f(strings.Repeat(": keep\n", 10000)+"data: a\n\n", 100, 1, false)
	f("data: b\n"+strings.Repeat(": keep\n", 10000)+"data: a\n\n", 100, 1, false)
	f(strings.Repeat("event: keep\n", 10000)+"data: a\n\n", 100, 1, false)
	f(x, 10, 0, true)
}

// late returns os.ErrDeadlineExceeded at every second read.
type late struct {
	r    io.Reader
	odd  bool
	with bool // together with bytes
}

func (l *late) Read(p []byte) (int, error) {
	if l.odd = !l.odd; l.odd && !l.with {
		return 0, os.ErrDeadlineExceeded
	}
	n, err := l.r.Read(p)
	if err == nil && l.with {
		err = os.ErrDeadlineExceeded
	}
	return n, err
}

func TestSplitterLosesNothingToDeadlines(t *testing.T) {
	in := "\ufeffevent: one\r\ndata: 1\r\ndata: 2\r\n\r\n: c\nid: x\ndata: 3\n\n"
	want, wantErr := naive(in)
	for _, with := range []bool{false, true} {
		for size := 1; size < len(in); size++ {
			var s Splitter
			s.Reset(100)
			got, err := all(&s, &late{r: &chunks{in: []byte(in), sizes: []int{size}}, with: with})
			if !reflect.DeepEqual(got, want) || err != wantErr {
				t.Fatalf("pieces of %d: %+v, %v", size, got, err)
			}
		}
	}
	var s Splitter
	got, err := all(&s, iotest.DataErrReader(strings.NewReader(in)))
	if !reflect.DeepEqual(got, want) || err != io.EOF {
		t.Fatalf("bytes together with EOF: %+v, %v", got, err)
	}
	broken := errors.New("reset by peer")
	s.Reset(0)
	if _, err = s.Next(iotest.ErrReader(broken)); err != broken {
		t.Fatalf("reader's error: %v", err)
	}
}

type idle struct{}

func (idle) Read([]byte) (int, error) { return 0, nil }

func TestSplitterGivesUpOnIdleReader(t *testing.T) {
	var s Splitter
	if _, err := s.Next(idle{}); err != io.ErrNoProgress {
		t.Fatalf("got %v", err)
	}
}

// The fields of an event must not change when the next one is read: a parser that joins lines in place could break that.
func TestSplitterFieldsStayUntilNext(t *testing.T) {
	var in []byte
	for i := range 2000 {
		in = Append(in, "n"+strconv.Itoa(i), []byte(strconv.Itoa(i)), bytes.Repeat([]byte(strconv.Itoa(i)+"\n"), i%50))
	}
	want, _ := naive(string(in))
	var s Splitter
	r := &chunks{in: in, sizes: []int{777}}
	for i := range want {
		e, err := s.Next(r)
		if err != nil || keep(e) != want[i] {
			t.Fatalf("event %d: %+v, %v, want %+v", i, keep(e), err, want[i])
		}
	}
}

func TestSplitterReleasesLargeBuffers(t *testing.T) {
	large := AppendMessage(nil, bytes.Repeat([]byte("x"), 1<<20))
	in := append([]byte(nil), large...)
	for range smallEvents + 1 {
		in = AppendMessage(in, []byte("{}"))
	}
	var s Splitter
	r := &chunks{in: in, sizes: []int{len(large), 20}}
	for range smallEvents + 2 {
		if _, err := s.Next(r); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.buf) > firstBuffer {
		t.Errorf("buffer of %d bytes after %d small events", len(s.buf), smallEvents+1)
	}
	s.Reset(0)
	if _, err := s.Next(bytes.NewReader(large)); err != nil {
		t.Fatal(err)
	}
	if s.Reset(0); len(s.buf) != 0 {
		t.Errorf("Reset kept %d bytes", len(s.buf))
	}
}

// A million line ends in one buffer must not be searched a million times: sixteen times as many take about sixteen times as long, not 256
// times. The shortest of several runs counts, because other processes may be busy.
func TestSplitterIsLinear(t *testing.T) {
	const small, times = 8 << 10, 16
	for _, in := range []string{"\r", "\n", "data\r", "data: x\r\n", ":\r"} {
		few, many := shortest(t, in, small), shortest(t, in, small*times)
		if many > 6*times*few {
			t.Errorf("%q: %v for %d bytes, %v for %d times as many", in, few, small, many, times)
		}
	}
}

// shortest is the shortest time for splitting this many bytes of line ends.
func shortest(t *testing.T, in string, size int) time.Duration {
	t.Helper()
	b, best := bytes.Repeat([]byte(in), size/len(in)), time.Duration(math.MaxInt64)
	for range 5 {
		var s Splitter
		s.Reset(8 << 20)
		s.buf = make([]byte, 4<<20) // all in one read
		begin := time.Now()
		_, err := all(&s, bytes.NewReader(b))
		Append(nil, "", nil, b)
		best = min(best, time.Since(begin))
		if err != io.EOF && err != io.ErrUnexpectedEOF {
			t.Fatal(err)
		}
	}
	return best
}

// repeat reads the same bytes for ever, in pieces that do not match its events.
type repeat struct {
	b  []byte
	at int
}

func (r *repeat) Read(p []byte) (int, error) {
	n := copy(p[:min(len(p), 1500)], r.b[r.at:])
	r.at = (r.at + n) % len(r.b)
	return n, nil
}

func TestSplitterAllocatesNothing(t *testing.T) {
	for _, size := range []int{300, 10 << 10, 1 << 20} {
		in := AppendMessage(nil, bytes.Repeat([]byte("x"), size))
		in = append(in, KeepAlive...)
		in = Append(in, "message", []byte("id-1"), []byte("two\nlines"))
		r := &repeat{b: in}
		var s Splitter
		next := func() {
			if _, err := s.Next(r); err != nil {
				t.Fatal(err)
			}
		}
		for range 20 {
			next()
		}
		if n := testing.AllocsPerRun(100, next); n != 0 {
			t.Errorf("%d bytes: %v allocations an event", size, n)
		}
	}
}

// taking reads every event, in place if possible.
func taking(s *Splitter, c *chunks) (out []kept, err error) {
	for {
		here := c.in[:min(len(c.in), c.sizes[0])]
		e, n, ok := s.Take(here)
		if c.in = c.in[n:]; !ok {
			if e, err = s.Next(c); err != nil {
				return out, err
			}
		}
		out = append(out, keep(e))
	}
}

func TestTake(t *testing.T) {
	for in, want := range map[string]int{
		"data: 1\n\n": 9, "event: message\nid: 7\ndata: 1\n\ndata: 2\n\n": 30, "data: \n\n": 8, // whole, in place
		"": 0, "\n": 0, "data: 1\n": 0, "data: 1\n\r\n": 0, "data: 1\r\n\r\n": 0, "data: 1\rdata: 2\n\n": 0, "data:1\n\n": 0, "data: 1\ndata: 2\n\n": 0,
		"id: 7\n\n": 0, "id: \x00\ndata: 1\n\n": 0, ": c\n\n": 0, "retry: 7\ndata: 1\n\n": 0, "\ufeffdata: 1\n\n": 0, "data: 12345678901234567\n\n": 0,
	} {
		var s Splitter
		s.Reset(16)
		e, n, ok := s.Take([]byte(in))
		if n != want || ok != (want > 0) {
			t.Errorf("%q: %d %v, want %d", in, n, ok, want)
		}
		if ok && cap(e.Data) != len(e.Data) {
			t.Errorf("%q: bytes after the data can be overwritten", in)
		}
	}
	var s Splitter
	if _, err := s.Next(strings.NewReader("data: 1\n\ndata")); err != nil {
		t.Fatal(err)
	}
	if e, n, ok := s.Take([]byte("data: 2\n\n")); ok {
		t.Errorf("%d bytes were taken before those already read: %+v", n, e)
	}
}

func FuzzSplitter(f *testing.F) {
	f.Add([]byte("\ufeffevent: a\r\ndata: 1\rdata: 2\n\nid: 3\nretry: 10\n\n: c\n\ndata"), uint64(1))
	f.Add([]byte("data\ndata\n\ndata:x\nevent:y\ndata:z\n\n"), uint64(2))
	f.Fuzz(func(t *testing.T, in []byte, seed uint64) {
		want, wantErr := naive(string(in))
		random := rand.New(rand.NewPCG(seed, 7))
		sizes := make([]int, 1+random.IntN(50))
		for i := range sizes {
			sizes[i] = 1 + random.IntN(1+random.IntN(2*len(in)+1))
		}
		var s Splitter
		got, err := all(&s, &late{r: &chunks{in: in, sizes: sizes}, with: seed%2 == 0})
		if err != wantErr || !reflect.DeepEqual(got, want) {
			t.Fatalf("%q in %v\n got %+v, %v\nwant %+v, %v", in, sizes, got, err, want, wantErr)
		}
		s.Reset(0)
		if got, err = taking(&s, &chunks{in: in, sizes: sizes}); err != wantErr || !reflect.DeepEqual(got, want) {
			t.Fatalf("%q, taken in %v\n got %+v, %v\nwant %+v, %v", in, sizes, got, err, want, wantErr)
		}
		limit := 1 + random.IntN(len(in)+1) // the same error however it is cut
		s.Reset(limit)
		one, oneErr := all(&s, bytes.NewReader(in))
		s.Reset(limit)
		two, twoErr := all(&s, &chunks{in: in, sizes: sizes})
		if !reflect.DeepEqual(one, two) || fmt.Sprint(oneErr) != fmt.Sprint(twoErr) {
			t.Fatalf("limit %d, %q in %v\n got %+v, %v\nand %+v, %v", limit, in, sizes, one, oneErr, two, twoErr)
		}
		s.Reset(limit)
		two, twoErr = taking(&s, &chunks{in: in, sizes: sizes})
		if !reflect.DeepEqual(one, two) || fmt.Sprint(oneErr) != fmt.Sprint(twoErr) {
			t.Fatalf("limit %d, %q taken in %v\n got %+v, %v\nand %+v, %v", limit, in, sizes, two, twoErr, one, oneErr)
		}
	})
}

func BenchmarkSplitter(b *testing.B) {
	for _, size := range []int{300, 10 << 10, 1 << 20} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			r := &repeat{b: AppendMessage(nil, bytes.Repeat([]byte("x"), size))}
			var s Splitter
			b.ReportAllocs()
			b.SetBytes(int64(len(r.b)))
			for b.Loop() {
				if _, err := s.Next(r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
