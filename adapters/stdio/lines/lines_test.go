package lines

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// collect reads to the end. A line that is too long is recorded as "!" and its prefix.
func collect(r *Reader) (lines []string, err error) {
	for {
		line, err := r.ReadLine()
		var long *LineTooLongError
		switch {
		case errors.As(err, &long):
			lines = append(lines, "!"+string(long.Prefix))
		case err != nil:
			return lines, err
		default:
			if run := r.Run(); run.From < len(line) {
				known := line[run.From:min(run.To, len(line))]
				if i := bytes.IndexFunc(known, func(c rune) bool { return c < 0x20 || c == '"' || c == '\\' || c >= 0x80 }); i >= 0 {
					return lines, fmt.Errorf("byte %#x in the run %+v", known[i], run)
				}
			}
			lines = append(lines, string(line))
		}
	}
}

// hasty returns io.EOF with its last bytes.
type hasty struct{ strings.Reader }

func (h *hasty) Read(p []byte) (int, error) {
	n, err := h.Reader.Read(p)
	if h.Len() == 0 {
		err = io.EOF
	}
	return n, err
}

// The run of a line belongs to that line, not to the one before, to skipped bytes, or to one with a byte order mark, and in large lines it
// covers most of them.
func TestRunsOfLines(t *testing.T) {
	t.Parallel()
	const size, limit = 200 << 10, 400 << 10
	large := `{"a":"` + strings.Repeat("a", size) + `"}`
	quotes := strings.Repeat(`"`, size)
	for _, step := range []int{16 << 10, 64 << 10, 1 << 20} {
		for name, lines := range map[string][]string{
			"one after the other":  {large, quotes, large, "short", quotes, large},
			"behind a skipped one": {large, strings.Repeat("b", 3*limit), quotes, strings.Repeat("c", limit+10<<10), quotes},
			"the first":            {"\xEF\xBB\xBF" + large + quotes, quotes},
			"without an end":       {large, large + quotes},
		} {
			text := strings.Join(lines, "\n")
			r := NewReader(stutter{strings.NewReader(text), step}, limit+size)
			got, err := collect(r)
			if err != io.EOF || !equal(got, naive([]byte(text), limit+size)) && name != "behind a skipped one" || len(got) != len(lines) {
				t.Errorf("%s, reads of %d: %d lines: %v", name, step, len(got), err)
			}
		}
		ends := NewReader(&hasty{*strings.NewReader(large + large)}, 2*len(large)-10)
		if got, err := collect(ends); err != io.EOF || len(got) != 1 {
			t.Errorf("the end comes with what is too long: %d lines: %v", len(got), err)
		}
		r := NewReader(stutter{strings.NewReader("\n\n" + large + "\n" + large + "\n"), step}, limit)
		for range 2 {
			line, err := r.ReadLine()
			if run := r.Run(); err != nil || run.To-run.From < len(line)-2*min(step, 64<<10)-4<<10 {
				t.Errorf("reads of %d: %+v of %d bytes: %v", step, run, len(line), err)
			}
		}
	}
}

func equal(a, b []string) bool {
	return strings.Join(a, "\n") == strings.Join(b, "\n") && len(a) == len(b)
}

func TestReaderSplits(t *testing.T) {
	t.Parallel()
	bom := "\xEF\xBB\xBF"
	f := func(in string, maxLine int, want ...string) {
		t.Helper()
		for name, src := range map[string]io.Reader{
			"whole":     strings.NewReader(in),
			"bytewise":  iotest.OneByteReader(strings.NewReader(in)),
			"halves":    iotest.HalfReader(strings.NewReader(in)),
			"early end": iotest.DataErrReader(strings.NewReader(in)),
		} {
			got, err := collect(NewReader(src, maxLine))
			if err != io.EOF || !equal(got, want) {
				t.Errorf("%s of %.60q: got %q and %v, want %q", name, in, got, err, want)
			}
		}
	}
	f("", 9)
	f("a\nb\n", 9, "a", "b")
	f("a\nb", 9, "a", "b")
	f("a\r\nb\r\n", 9, "a", "b")
	f("\n\r\n\na\n\n", 9, "a")
	f("a\r", 9, "a")
	f("\r", 9)
	f("a\rb\n", 9, "a\rb")
	f("a\r\r\n", 9, "a\r")
	f(" \n", 9, " ")
	f(bom+"a\n", 9, "a")
	f(bom, 9)
	f(bom+"\na\n", 9, "a")
	f("\n"+bom+"a\n", 9, bom+"a")
	f(bom+bom+"a\n", 9, bom+"a")
	f("a\u2028b\u2029c\n", 99, "a\u2028b\u2029c")
	f("\x00\xff\n\x00\n", 9, "\x00\xff", "\x00")
	f("äöü€😀\n", 99, "äöü€😀")
	f("1234\n12345\r\n123456\n1234567\n1\n", 5, "1234", "12345", "!123456", "!1234567", "1")
	f("123456", 5, "!123456")
	f(bom+"12345\n", 5, "12345")
	f(bom+"12345\r\n1", 5, "12345", "1")
	f("1234567890", 10, "1234567890")
	f("12345678901\r\n1234567890\r\n1", 10, "!12345678901", "1234567890", "1")
}

// The result does not depend on where a read ends.
func TestReaderSplitAnywhere(t *testing.T) {
	t.Parallel()
	const text = "\xEF\xBB\xBF{\"a\":\"ä€😀\u2028\u2029\x00\r\xF0\x9F\"}\r\n{\"é\":1}\n"
	want := naive([]byte(text), 99)
	for i := range len(text) {
		for j := i; j < len(text); j++ {
			src := io.MultiReader(strings.NewReader(text[:i]), strings.NewReader(text[i:j]), strings.NewReader(text[j:]))
			if got, err := collect(NewReader(src, 99)); err != io.EOF || !equal(got, want) {
				t.Fatalf("split at %d and %d: %q, %v", i, j, got, err)
			}
		}
	}
}

// filler is a source of lines of this many bytes each, without the memory for them.
type filler struct{ size, left int }

func (f *filler) Read(p []byte) (int, error) {
	if f.left == 0 {
		return 0, io.EOF
	}
	n := min(len(p), 1+(f.left-1)%(f.size+1)) // to the end of the line at most
	const xs = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
	for rest := p[:n]; len(rest) > 0; rest = rest[copy(rest, xs):] {
	}
	if f.left -= n; f.left%(f.size+1) == 0 {
		p[n-1] = '\n'
	}
	return n, nil
}

// The longest line by default, and one that is a byte longer.
func TestReaderLongestLine(t *testing.T) {
	t.Parallel()
	r := NewReader(&filler{size: DefaultMaxLine, left: 2 * (DefaultMaxLine + 1)}, 0)
	for range 2 {
		line, err := r.ReadLine()
		if err != nil || len(line) != DefaultMaxLine || line[0] != 'x' || line[len(line)-1] != 'x' {
			t.Fatalf("%d bytes, %v", len(line), err)
		}
	}
	if _, err := r.ReadLine(); err != io.EOF {
		t.Error(err)
	}
	r = NewReader(&filler{size: DefaultMaxLine + 1, left: DefaultMaxLine + 2}, 0)
	var long *LineTooLongError
	if _, err := r.ReadLine(); !errors.As(err, &long) || long.Size != DefaultMaxLine+1 || len(long.Suffix) != suffixSize {
		t.Error(err)
	}
}

// The error of a line that is too long has both its ends, wherever its end lies.
func TestReaderShowsBothEnds(t *testing.T) {
	t.Parallel()
	f := func(size int, terminator string) {
		t.Helper()
		line := strings.Repeat("x", size) + `,"id":7}`
		r := NewReader(strings.NewReader(line+terminator+"next\n"), 1000)
		_, err := r.ReadLine()
		var long *LineTooLongError
		if !errors.As(err, &long) || !strings.HasSuffix(string(long.Suffix), `x,"id":7}`) || len(long.Suffix) < suffixSize-1 ||
			string(long.Prefix) != line[:prefixSize] && len(line) >= prefixSize {
			t.Fatalf("%d%q: %.300q, %v", size, terminator, long.Suffix, err)
		}
		if next, err := r.ReadLine(); string(next) != "next" {
			t.Errorf("then %q, %v", next, err)
		}
	}
	for _, end := range []string{"\n", "\r\n"} {
		for size := ChunkSize - 270; size < ChunkSize+10; size += 3 {
			f(size, end)
		}
		f(1100, end)
		f(3<<20, end)
	}
}

// A limit and a prefix that are far apart, with the end of the long line in a later chunk.
func TestReaderSkipsWithoutGrowing(t *testing.T) {
	t.Parallel()
	const maxLine = 100_000
	long := strings.Repeat("x", 3<<20)
	r := NewReader(strings.NewReader("a\n"+long+"\r\nb\n"), maxLine)
	if line, err := r.ReadLine(); string(line) != "a" || err != nil {
		t.Fatalf("got %q, %v", line, err)
	}
	_, err := r.ReadLine()
	var e *LineTooLongError
	if !errors.As(err, &e) || e.Limit != maxLine || e.Size < 3<<20 || e.Size > 3<<20+1 || string(e.Prefix) != long[:prefixSize] {
		t.Fatalf("got %v", err)
	}
	if r.hold != nil && cap(r.hold.B) > 2*ChunkSize {
		t.Errorf("the buffer grew to %d", cap(r.hold.B))
	}
	if line, err := r.ReadLine(); string(line) != "b" || err != nil {
		t.Fatalf("got %q, %v", line, err)
	}
}

// What is skipped of a line that is too long is no sign of another message.
func TestReaderReceivedLeavesOutSkipped(t *testing.T) {
	t.Parallel()
	r := NewReader(iotest.OneByteReader(strings.NewReader("ab\n"+strings.Repeat("x", 1000)+"\ncd\n")), 10)
	var at []uint64
	for {
		_, err := r.ReadLine()
		if at = append(at, r.Received()); err == io.EOF {
			break
		}
	}
	if want := []uint64{3, 3 + 12 + 1, 3 + 12 + 1 + 3, 3 + 12 + 1 + 3}; !slices.Equal(at, want) {
		t.Errorf("received %v, want %v", at, want)
	}
}

// A line without an end is reported as too long, and then ends the stream.
func TestReaderEndsEndlessLine(t *testing.T) {
	t.Parallel()
	endless := func(limit int64) (*Reader, *hasty) {
		src := &hasty{*strings.NewReader("ab\n" + strings.Repeat("x", 1<<20) + "\ncd\n")}
		r := NewReader(src, 1000)
		r.SetEndless(limit)
		if line, err := r.ReadLine(); string(line) != "ab" || err != nil {
			t.Fatalf("%q %v", line, err)
		}
		var long *LineTooLongError
		if _, err := r.ReadLine(); !errors.As(err, &long) || !strings.HasPrefix(string(long.Prefix), "xxx") {
			t.Fatalf("%v", err)
		}
		return r, src
	}
	r, src := endless(100_000)
	for range 2 {
		if line, err := r.ReadLine(); err != ErrEndless {
			t.Errorf("%q %v", line, err)
		}
	}
	if left := src.Len(); left < 1<<20-300_000 {
		t.Errorf("%d bytes are left", left)
	}
	for _, limit := range []int64{0, 1 << 20} {
		r, _ := endless(limit)
		if line, err := r.ReadLine(); string(line) != "cd" || err != nil {
			t.Errorf("%d: %q %v", limit, line, err)
		}
	}
}

func TestReaderShrinks(t *testing.T) {
	t.Parallel()
	var in strings.Builder
	for range 3 {
		in.WriteString(strings.Repeat("y", 5<<20) + "\nsmall\n")
	}
	in.WriteString(strings.Repeat("z", 100) + "\n")
	r := NewReader(iotest.HalfReader(strings.NewReader(in.String())), 0)
	for i := range 7 {
		line, err := r.ReadLine()
		if err != nil {
			t.Fatal(err)
		}
		if want := []int{5 << 20, 5}[i%2]; i < 6 && len(line) != want {
			t.Fatalf("line %d has %d bytes", i, len(line))
		}
		if len(line) == 5<<20 && strings.Trim(string(line), "y") != "" {
			t.Fatal("a large line was damaged")
		}
	}
	if _, err := r.ReadLine(); err != io.EOF || r.hold != nil {
		t.Errorf("at the end: %v, buffer %v", err, r.hold != nil)
	}
}

func TestReaderDropsPartOfBrokenStream(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	r := NewReader(io.MultiReader(strings.NewReader("a\npart"), iotest.ErrReader(broken)), 0)
	got, err := collect(r)
	if !equal(got, []string{"a"}) || err != broken {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := r.ReadLine(); err != broken {
		t.Errorf("the error does not stick: %v", err)
	}
}

type idler struct{}

func (idler) Read([]byte) (int, error) { return 0, nil }

func TestReaderGivesUpOnIdleSource(t *testing.T) {
	t.Parallel()
	if _, err := NewReader(idler{}, 0).ReadLine(); err != io.ErrNoProgress {
		t.Errorf("got %v", err)
	}
}

// parker has nothing to read at first, every time.
type parker struct {
	t   *testing.T
	r   *Reader
	src io.Reader
}

func (p *parker) Read([]byte) (int, error) { return 0, errors.New("not this way") }

func (p *parker) ReadPark(lend func() []byte, back func()) (int, error) {
	lend()
	back()
	if held := p.r.hold != nil; held != (p.r.from < p.r.to) {
		p.t.Errorf("waits with a buffer: %v, for %d bytes", held, p.r.to-p.r.from)
	}
	return p.src.Read(lend())
}

// A Reader holds no buffer while it waits for a line to begin, but does within a line.
func TestReaderWaitsWithoutBuffer(t *testing.T) {
	t.Parallel()
	p := &parker{t: t, src: stutter{strings.NewReader("one\ntwo\n" + strings.Repeat("x", 150_000) + "\nend"), 5}}
	p.r = NewReader(p, 0)
	got, err := collect(p.r)
	if err != io.EOF || len(got) != 4 || got[1] != "two" || len(got[2]) != 150_000 || got[3] != "end" {
		t.Errorf("%d lines, %v", len(got), err)
	}
}

// naive is the reference for a Reader: the whole input, split by the standard library.
func naive(in []byte, maxLine int) (lines []string) {
	in = bytes.TrimPrefix(in, []byte(byteOrderMark))
	for line := range bytes.SplitSeq(in, []byte{'\n'}) {
		line = bytes.TrimSuffix(line, []byte{'\r'})
		switch {
		case len(line) > maxLine:
			lines = append(lines, "!"+string(line[:1]))
		case len(line) > 0:
			lines = append(lines, string(line))
		}
	}
	return lines
}

// stutter returns at most n bytes a read.
type stutter struct {
	src io.Reader
	n   int
}

func (s stutter) Read(p []byte) (int, error) { return s.src.Read(p[:min(len(p), s.n)]) }

// FuzzReader compares with naive, with any limit and any size of reads, and with the input repeated so that it crosses the end of the
// buffer.
func FuzzReader(f *testing.F) {
	f.Add([]byte("a\nb\r\n\n\xEF\xBB\xBFc"), uint16(3), uint16(1), uint16(0))
	f.Add([]byte("\xEF\xBB\xBF\r\n123456\r\n1234\r"), uint16(4), uint16(2), uint16(0))
	f.Add([]byte("\xEF\xBB\xBF12345\r"), uint16(5), uint16(3), uint16(0))
	f.Add([]byte("0123456789\n"), uint16(10), uint16(0), uint16(20_000))
	f.Add([]byte("xxxxxxxx"), uint16(60_000), uint16(0), uint16(25_000))
	f.Add(bytes.Repeat([]byte("k"), 50_000), uint16(50_001), uint16(40_000), uint16(0))
	f.Add(append(bytes.Repeat([]byte("k"), 45_000), 10), uint16(50_001), uint16(0), uint16(3))
	f.Add([]byte("one\ntwo three\r\n"), uint16(8), uint16(1000), uint16(7000))
	f.Fuzz(func(t *testing.T, in []byte, limit, step, repeat uint16) {
		in = bytes.Repeat(in, max(1, min(int(repeat), 200_000/(len(in)+1))))
		maxLine := int(limit)%60_000 + 1
		n := int(step)
		if n == 0 || len(in) > 1000*n {
			n = 1 << 20
		}
		r := NewReader(stutter{bytes.NewReader(in), n}, maxLine)
		r.keep = 1
		got, err := collect(r)
		if want := naive(in, maxLine); err != io.EOF || !equal(got, want) {
			t.Errorf("limit %d, step %d: got %.200q (%v), want %.200q", maxLine, n, got, err, want)
		}
		if r.hold != nil {
			t.Error("the buffer is still held at the end")
		}
		keeping(t, NewReader(stutter{bytes.NewReader(in), n}, maxLine), naive(in, maxLine))
	})
}

// keeping reads all lines, keeps what can be kept, and compares at the end.
func keeping(t *testing.T, r *Reader, want []string) {
	t.Helper()
	var lines [][]byte
	for i := 0; ; i++ {
		line, err := r.ReadLine()
		var long *LineTooLongError
		if errors.As(err, &long) {
			lines = append(lines, append([]byte{'!'}, long.Prefix[0]))
			continue
		}
		if err != nil {
			break
		}
		if i%3 == 1 {
			line = bytes.Clone(line)
		} else if release := r.Keep(); release != nil {
			defer release()
			if r.Keep() != nil {
				t.Error("a line was kept twice")
			}
		} else {
			line = bytes.Clone(line)
		}
		lines = append(lines, line)
	}
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d", len(lines), len(want))
	}
	for i := range want {
		if string(lines[i]) != want[i] {
			t.Fatalf("line %d: %.100q, want %.100q", i, lines[i], want[i])
		}
	}
}

func TestFlatten(t *testing.T) {
	t.Parallel()
	f := func(in, want string) {
		t.Helper()
		if got := string(Flatten([]byte("+"), []byte(in))); got != "+"+want {
			t.Errorf("%q: got %q, want %q", in, got, "+"+want)
		}
	}
	f(``, ``)
	f(`{"a":1}`, `{"a":1}`)
	f("{\n\t\"a\": 1\r\n}\n", "{ \t\"a\": 1  } ")
	f("[\"a\\\"\n\",\n\"\\\\\"\n]", "[\"a\\\"\n\", \"\\\\\" ]")
	f("\"\\", "\"\\")
}

func BenchmarkReader300B(b *testing.B) { benchReader(b, 300) }

func BenchmarkReader1MiB(b *testing.B) { benchReader(b, 1<<20) }

func benchReader(b *testing.B, size int) {
	line := append(bytes.Repeat([]byte("x"), size), '\n')
	stream := bytes.Repeat(line, max(1, (4<<20)/size))
	src := bytes.NewReader(nil)
	r := NewReader(src, 0)
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		got, err := r.ReadLine()
		if err == io.EOF {
			src.Reset(stream)
			r.err = nil
			continue
		}
		if err != nil || len(got) != size {
			b.Fatal(len(got), err)
		}
	}
}
