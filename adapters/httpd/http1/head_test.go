package http1

import (
	"bufio"
	"reflect"
	"strings"
	"testing"
)

// FuzzAgain: a second head on a connection is parsed as if it were the first.
func FuzzAgain(f *testing.F) {
	const line, host = "POST /mcp HTTP/1.1\r\n", "Host: a\r\n"
	for _, heads := range [][2]string{
		{line + host + "X: y\r\nContent-Length: 3\r\n\r\n", line + host + "X: y\r\nContent-Length: 3\r\n\r\n"},
		{line + host + "X: y\r\nContent-Length: 3\r\n\r\n", line + host + "X: y\r\nContent-Length: 4\r\n\r\n"},
		{line + host + "X: y\r\nContent-Length: 3\r\n\r\n", line + "X: y\r\n" + host + "Content-Length: 3\r\n\r\n"},
		{line + host + "Content-Length: 3\r\n\r\n", line + host + "Content-Length: 3\r\nContent-Length: 3\r\n\r\n"},
		{line + host + "Content-Length: 3\r\nContent-Length: 3\r\n\r\n", line + host + "Content-Length: 3\r\nContent-Length: 3\r\n\r\n"},
		{line + host + "Content-Length: 3\r\n\r\n", "\r\nGET / HTTP/1.0\r\n" + host + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n"},
		{line + host + "X: y\r\n\r\n", line + host + "X: y\r\n z\r\n\r\n"}, {line + host + "X: y\r\n\r\n", line + host + "X: y\r"}, {line + host + "\r\n", line + "\r\n"},
		{"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nDate: now\r\n\r\n", "HTTP/1.1 204 No\r\nContent-Length: 3\r\nDate: then\r\n\r\n"},
	} {
		f.Add(heads[0], heads[1], true)
		f.Add(heads[0], heads[1], false)
	}
	f.Fuzz(func(t *testing.T, before, head string, asks bool) {
		read := func(s *HeadReader, head string) (int, error) {
			s.Start(false)
			return s.Read(bufio.NewReaderSize(strings.NewReader(head), 4096))
		}
		used, fresh := HeadReader{Requests: asks}, HeadReader{Requests: asks}
		_, _ = read(&used, before)
		n, err := read(&used, head)
		m, want := read(&fresh, head)
		if n != m || !reflect.DeepEqual(err, want) {
			t.Fatalf("%d %v, want %d %v", n, err, m, want)
		}
		used.last, fresh.last, used.Known = lastHead{}, lastHead{}, false
		if len(used.fields.at)+len(fresh.fields.at) == 0 {
			used.fields.at, fresh.fields.at = nil, nil
		}
		if !reflect.DeepEqual(used, fresh) {
			t.Fatalf("%+v\nwant %+v", used, fresh)
		}
	})
}
