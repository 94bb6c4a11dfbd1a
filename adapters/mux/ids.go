package mux

import (
	"bytes"
	"strconv"

	"dragoman/adapters/transport"
)

// lastID finds an id at the end of a message, possibly followed by the jsonrpc member. The last brace closes the message
// itself, so a member directly before it is the message's own.
func lastID(end []byte) (n uint64, ok bool) {
	cut := func(what string) {
		if rest, was := bytes.CutSuffix(bytes.TrimSpace(end), []byte(what)); was {
			end = bytes.TrimSpace(rest)
		}
	}
	for _, what := range []string{"}", `"2.0"`, ":", `"jsonrpc"`, ","} {
		cut(what)
	}
	from := len(end)
	for from > 0 && end[from-1] >= '0' && end[from-1] <= '9' {
		from--
	}
	n, ok = number(end[from:])
	end = end[:from]
	cut(":")
	return n, ok && bytes.HasSuffix(end, []byte(`"id"`))
}

// number parses an id made here. A server may have turned it into a string; all ids on this channel are numbers, so the
// meaning is clear.
func number(id []byte) (n uint64, ok bool) {
	if len(id) > 2 && id[0] == '"' {
		id = id[1 : len(id)-1]
	}
	n, err := strconv.ParseUint(string(id), 10, 64)
	return n, err == nil && (id[0] != '0' || n == 0)
}

// stray says whose request an answer with id n is for; ok is false if its id is none that was made here.
func (x *Mux) stray(n uint64, ok bool) transport.Stray {
	if !ok {
		return transport.Unknown
	}
	return x.ids.Of(n)
}
