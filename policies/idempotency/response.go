package idempotency

import (
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// response is the outcome of a request: the bytes of its response, a failure, or neither if the response was too large to keep. It is
// immutable, and may be read after its eviction.
type response struct {
	raw    []byte
	err    *proxy.Error
	target string // the server that answered
}

// size returns how many bytes a response takes.
func (r *response) size() int {
	n := cap(r.raw)
	if r.err != nil {
		n += len(r.err.Message) + len(r.err.Data)
	}
	return n
}

// room returns memory for a response of size bytes: that of an evicted response, unless it is too small or much too large. Only the running
// call may use it.
func (r *response) room(size int) []byte {
	if size > cap(r.raw) || 4*size < cap(r.raw) {
		return make([]byte, 0, size)
	}
	return r.raw[:0]
}

func (r *response) tooLarge() bool { return r.raw == nil && r.err == nil }

func notKept(ex *proxy.Exchange) error {
	return proxy.Errf(proxy.DuplicateID, "%s was used before, and its answer was too large to be kept, over %d bytes; use a new one to have it made again", knownBy(ex), maxResponse)
}

// replayedKey is the member of _meta that marks a replayed result.
const replayedKey = "io.dragoman/replayed"

// message returns the response as the answer to a duplicate.
func (r *response) message(ex *proxy.Exchange) (wire.Message, error) {
	ex.Target = r.target
	if r.err != nil {
		ex.Replayed = true
		return wire.Message{}, r.err
	}
	if r.raw == nil {
		return wire.Message{}, notKept(ex)
	}
	msg, err := wire.Scan(r.raw)
	if err != nil {
		return msg, proxy.Errf(proxy.Internal, "a cached response is no message: %w", err)
	}
	ex.Replayed = true
	msg.Replace(msg.ID, ex.Msg.Of(ex.Msg.ID))
	switch {
	case msg.Kind != wire.Result || !msg.Result.IsObject(msg.Raw):
	case msg.Meta.IsObject(msg.Raw):
		msg.EditObject(msg.Meta, []wire.Change{{Key: replayedKey, Value: []byte("true")}})
	default:
		msg.EditObject(msg.Result, []wire.Change{{Key: "_meta", Value: []byte(`{"` + replayedKey + `":true}`)}})
	}
	return msg, nil
}
