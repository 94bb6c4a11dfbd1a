// Package reply writes the replies to a modern request that a gRPC server serves.
package reply

import (
	"math"
	"strconv"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Writer writes the replies to one request. What it returns is valid until the next reply, or until the request's memory is reused.
type Writer struct {
	ID    []byte        // of the request, raw JSON
	Token []byte        // its progress token, raw JSON; nil: none
	Info  func() []byte // returns the serverInfo of results, raw JSON; nil: there is none
	last  wire.Message
}

// Begin begins a response whose result is about size bytes long. The caller adds the members of the result, and gives it to Complete or End. Results are
// written where they are to be, as some are large.
func (w *Writer) Begin(size int) *wire.Builder {
	b := w.response(size)
	b.Key("result")
	return wire.NewBuilder(b.Raw)
}

// Complete adds to a result what every complete one has, and returns the response. meta is its _meta, raw JSON; nil: none.
func (w *Writer) Complete(b *wire.Builder, meta []byte) (*wire.Message, error) {
	b.Add("resultType", []byte(`"complete"`))
	b.Add("_meta", w.Meta(meta))
	return w.End(b)
}

// End returns the response with the result.
func (w *Writer) End(b *wire.Builder) (*wire.Message, error) { return w.message(append(b.Done(), '}')) }

// Meta returns a _meta object with the serverInfo; nil if there is neither.
func (w *Writer) Meta(meta []byte) []byte {
	info := w.Info()
	if info == nil {
		return meta
	}
	server := wire.Change{Key: wire.MetaPrefix + "serverInfo", Value: info}
	if meta == nil {
		return wire.Object([]wire.Change{server})
	}
	return wire.With(meta, server)
}

// Failure returns the response with an error of the server's own, raw JSON.
func (w *Writer) Failure(failure []byte) (*wire.Message, error) {
	b := w.response(len(failure))
	b.Add("error", failure)
	return w.message(b.Done())
}

// response begins a response whose result or error is about size bytes long.
func (w *Writer) response(size int) *wire.Builder {
	b := &wire.Builder{Raw: append(make([]byte, 0, len(w.ID)+size+40), `{"jsonrpc":"2.0"`...)}
	b.Add("id", w.ID)
	return b
}

// Notification returns a notification with params, raw JSON.
func (w *Writer) Notification(method string, params []byte) (*wire.Message, error) {
	b := wire.Builder{Raw: []byte(`{"jsonrpc":"2.0"`)}
	b.Text("method", method)
	b.Add("params", params)
	return w.message(b.Done())
}

func (w *Writer) message(raw []byte) (*wire.Message, error) {
	var err error
	if w.last, err = wire.Scan(raw); err != nil {
		return nil, proxy.Errf(proxy.BadAnswer, "what the gRPC server has sent makes no message: %w", err)
	}
	return &w.last, nil
}

// Refuse returns the result of a tool that was not run, or has failed, which the model may correct (2026-07-28 tools, Error Handling).
func (w *Writer) Refuse(why string) (*wire.Message, error) {
	b := w.Begin(len(why) + around)
	AddText(b, why)
	b.Add("isError", []byte("true"))
	return w.Complete(b, nil)
}

// around is about how many bytes a result has besides its content.
const around = 256

// AddText adds the content of a result that is one text.
func AddText[T string | []byte](b *wire.Builder, text T) {
	b.Key("content")
	b.Raw = append(wire.AppendText(append(b.Raw, `[{"type":"text","text":`...), text), "}]"...)
}

// Progress returns the notification of progress; nil if the client does not want it. A nil total is unknown.
func (w *Writer) Progress(progress float64, total *float64, message string) (*wire.Message, error) {
	if w.Token == nil {
		return nil, nil //nolint:nilnil // see above
	}
	b := wire.NewBuilder(nil)
	b.Add("progressToken", w.Token)
	b.Add("progress", Number(progress))
	if total != nil {
		b.Add("total", Number(*total))
	}
	b.Some("message", message)
	return w.Notification("notifications/progress", b.Done())
}

// Number returns a JSON number. NaN and infinities, which JSON does not have, become 0.
func Number(n float64) []byte {
	if math.IsNaN(n) || math.IsInf(n, 0) {
		n = 0
	}
	return strconv.AppendFloat(nil, n, 'g', -1, 64)
}
