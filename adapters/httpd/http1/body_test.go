package http1

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http/httputil"
	"strings"
	"testing"
	"testing/iotest"
)

// decode reads a chunked body and returns the bytes after it.
func decode(r io.Reader) (data, rest []byte, err error) {
	b := &Body{br: bufio.NewReaderSize(r, 64<<10)}
	b.StartChunked()
	data, err = io.ReadAll(b)
	rest, _ = io.ReadAll(b.br)
	return data, rest, err
}

func TestChunked(t *testing.T) {
	for in, want := range map[string]string{
		"0\r\n\r\nREST":             "",
		"3\r\nabc\r\n0\r\n\r\nREST": "abc",
		"3;a=b;c=\"d;e\"\r\nabc\r\nA  \r\n0123456789\r\n00\r\nX-T: v\r\nY: z\r\n\r\nREST": "abc0123456789",
		"000000000000003\r\nabc\r\n0;last\r\n\r\nREST":                                    "abc",
	} {
		for _, r := range []io.Reader{strings.NewReader(in), iotest.OneByteReader(strings.NewReader(in)), iotest.DataErrReader(strings.NewReader(in))} {
			data, rest, err := decode(r)
			if err != nil || string(data) != want || string(rest) != "REST" {
				t.Errorf("%q: %q, %q, %v", in, data, rest, err)
			}
		}
	}
}

func TestChunkedRefused(t *testing.T) {
	for _, in := range []string{
		"\r\n", "g\r\n", "-1\r\n", "+3\r\nabc\r\n", "0x3\r\nabc\r\n", "3\nabc\r\n0\r\n\r\n", "3\r\nabcd\r\n", "3\r\nab\r\n0\r\n\r\n",
		"ffffffffffffffff\r\n", "1000000000000000\r\n", "3 3\r\nabc\r\n", " 3\r\nabc\r\n", "3;\x00\r\nabc\r\n",
		"0\r\nbad trailer\r\n\r\n", "0\r\n folded: x\r\n\r\n", "0\n\n", strings.Repeat("0", 5000), "3\r\nabc\r\n0\r\nX: " + strings.Repeat("x", 5000),
		strings.Repeat("1;"+strings.Repeat("x", 1000)+"\r\na\r\n", 30) + "0\r\n\r\n",
		"0\r\n" + strings.Repeat("X: "+strings.Repeat("x", 1000)+"\r\n", 30) + "\r\n",
	} {
		var malformed *MalformedError
		if data, _, err := decode(strings.NewReader(in)); !errors.As(err, &malformed) {
			t.Errorf("%.40q: %q, %v", in, data, err)
		}
	}
	for _, in := range []string{"", "3", "3\r\n", "3\r\nab", "3\r\nabc", "3\r\nabc\r", "3\r\nabc\r\n", "3\r\nabc\r\n0\r\n", "0\r\n\r"} {
		if data, _, err := decode(strings.NewReader(in)); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%q: %q, %v", in, data, err)
		}
	}
}

// The chunk framing after the last byte is read with it if it has arrived, so that a complete body does not look unread.
func TestChunkedEndIsReadWithTheData(t *testing.T) {
	b := &Body{br: bufio.NewReader(strings.NewReader("3\r\nabc\r\n0\r\n\r\n"))}
	b.StartChunked()
	p := make([]byte, 3)
	if n, err := b.Read(p); n != 3 || err != nil || !b.done {
		t.Fatal(n, err, b.done)
	}
}

// FuzzChunked: the standard library accepts every body that we accept, with the same content, and the size of reads does not matter.
func FuzzChunked(f *testing.F) {
	for _, in := range []string{
		"3\r\nabc\r\n0\r\n\r\nrest", "3;x=y\r\nabc\r\n0\r\nT: v\r\n\r\n", "a\r\n0123456789\r\n0\r\n\r\n", "3\r\nabcd\r\n", "\n", "0\r\n\r\n",
	} {
		f.Add([]byte(in))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		data, rest, err := decode(bytes.NewReader(in))
		slow, slowRest, slowErr := decode(iotest.OneByteReader(bytes.NewReader(in)))
		if !bytes.Equal(data, slow) || (err == nil) != (slowErr == nil) || err == nil && !bytes.Equal(rest, slowRest) {
			t.Fatalf("at once %q %q %v, slowly %q %q %v", data, rest, err, slow, slowRest, slowErr)
		}
		if err != nil {
			return
		}
		theirs, theirErr := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(in)))
		if theirErr != nil || !bytes.Equal(data, theirs) {
			t.Fatalf("we read %q, the standard library %q, %v", data, theirs, theirErr)
		}
	})
}
