package httpclient

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
)

// A body in pieces of any size arrives as one.
func TestBodiesInPieces(t *testing.T) {
	addr := upstream(t, func(_ int, c net.Conn) {
		each(c, func(_ *http.Request, body string) string {
			return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		})
	})
	h := newHost(t, HostOptions{URL: addr})
	for _, sizes := range [][]int{{0, 0}, {10}, {10, 2, 300}, {10, maxCopied, 5}, {maxCopied + 1}, {30, 2, 3 * writePiece}, {3 * writePiece, 2, 30},
		{writePiece, writePiece, 7, writePiece + 1}, {5, 0, maxCopied, maxCopied, maxCopied - 1, 2 * maxCopied}} {
		var pieces [][]byte
		var want strings.Builder
		for i, n := range sizes {
			pieces = append(pieces, []byte(strings.Repeat(string(rune('a'+i)), n)))
			want.Write(pieces[i])
		}
		for range 2 { // the second on a connection that was used
			req := post("")
			req.Body, req.Behind = pieces[0], pieces[1:]
			if got := whole(t, h, req); got != want.String() {
				t.Errorf("%v: %d bytes arrived of %d", sizes, len(got), want.Len())
			}
		}
	}
}

// A body that arrived with its head is returned in place, once, unless it is too large.
func TestWholeBodies(t *testing.T) {
	addr := upstream(t, func(_ int, c net.Conn) {
		each(c, func(_ *http.Request, body string) string {
			return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		})
	})
	h := newHost(t, HostOptions{URL: addr})
	for _, n := range []int{0, 1, 5000, 100_000} {
		for _, limit := range []int{n - 1, n, n + 1} {
			want := strings.Repeat("x", n)
			ans := send(t, h, post(want))
			if _, there := ans.Whole(limit); there {
				t.Fatal("a body before its head")
			}
			if _, _, err := ans.Head(soon()); err != nil {
				t.Fatal(err)
			}
			got, there := ans.Whole(limit)
			if there && (string(got) != want || limit < n) || n == 100_000 && there {
				t.Errorf("%d bytes, at most %d: %d are there", n, limit, len(got))
			}
			rest, err := ans.Body(nil, limit, soon())
			if there && (err != nil || len(rest) > 0) || !there && limit >= n && (err != nil || string(rest) != want) || limit < n && n > 0 && err == nil {
				t.Errorf("%d bytes, at most %d, there %t: then %d bytes, %v", n, limit, there, len(rest), err)
			}
			ans.Close()
		}
	}
}
