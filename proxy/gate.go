package proxy

// Head is what is known of an HTTP request before its body is read. The bytes are borrowed until the gate returns.
type Head struct {
	Host, Origin []byte
}

// Gate judges a request by its head, before its body is read: where it comes from, who asks, how much. An error ends the
// request.
type Gate func(h *Head) *Error
