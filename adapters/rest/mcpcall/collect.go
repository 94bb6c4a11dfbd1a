package mcpcall

import (
	"bytes"
	"errors"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Bounds of a list of many pages.
const (
	maxPages     = 1000
	maxListBytes = 64 << 20
)

// Collect reads all pages of a list and passes each to page, whose error ends it. target is the server that has the list. A server
// that does not know the method has an empty list.
func (o *Origin) Collect(method string, page func(m *wire.Message) error) (target string, err error) {
	var cursor []byte
	size := 0
	for n := range maxPages {
		var params Members
		if cursor != nil {
			params.Add("cursor", cursor)
		}
		var m wire.Message
		if m, target, err = o.Ask(method, params); err != nil {
			if n == 0 && unknownMethod(err) {
				err = nil
			}
			return target, err
		}
		if size += len(m.Raw); size > maxListBytes {
			return target, proxy.Errf(proxy.ResponseTooLarge, "the upstream server's %s is larger than %d bytes", method, maxListBytes)
		}
		if err = page(&m); err != nil {
			return target, err
		}
		next := wire.Get(m.Raw, m.Result, "nextCursor")
		if !next.IsString(m.Raw) || bytes.Equal(next.Of(m.Raw), cursor) {
			return target, nil
		}
		cursor = bytes.Clone(next.Of(m.Raw))
	}
	return target, proxy.Errf(proxy.ResponseTooLarge, "the upstream server's %s has more than %d pages", method, maxPages)
}

// unknownMethod reports whether an error says that the server does not have the method.
func unknownMethod(err error) bool {
	var failed *ServerError
	if errors.As(err, &failed) {
		return failed.Code == proxy.CodeMethodNotFound
	}
	return proxy.IsFault(err, proxy.MethodNotFound)
}
