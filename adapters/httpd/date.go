package httpd

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// dater renders the Date field (RFC 9110 §6.6.1) once a second. fasthttp's own keeps a goroutine for ever.
type dater struct{ now atomic.Pointer[datum] }

type datum struct {
	second int64
	text   []byte
}

func (d *dater) stamp(h *fasthttp.ResponseHeader) {
	now := time.Now()
	last := d.now.Load()
	if last == nil || last.second != now.Unix() {
		last = &datum{second: now.Unix(), text: now.UTC().AppendFormat(nil, http.TimeFormat)}
		d.now.Store(last)
	}
	h.SetBytesV("Date", last.text)
}
