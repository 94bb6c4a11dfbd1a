package access

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/net/http/httpguts"

	"dragoman/policies"
	"dragoman/proxy"
)

// maxCarried bounds the forwarded header values of one request, in bytes. A legacy session keeps them for as long as it
// lives.
const maxCarried = 8 << 10

// carriedPrincipal begins the principal of a caller that only its forwarded headers identify. The 32 hexadecimal digits
// of an HMAC follow, which nobody can predict and so give to an API key as its name.
const carriedPrincipal = "carried:"

// ForwardOptions configures [ForwardHeaders].
type ForwardOptions struct {
	// Names are the headers to forward, in any case. Without names nothing is forwarded.
	Names []string
	// Key is the secret from which the key of the HMAC is derived. If it is empty, the key is random and belongs to
	// this process. Instances that share what clients hold must share it.
	Key     []byte
	Metrics prometheus.Registerer
}

// ForwardHeaders returns the gate that copies the headers to be sent to upstreams from each request
// (upstreams.NAME.forward_headers). It runs after authentication. A caller without another credential is identified by
// its forwarded headers, so that nothing of one caller reaches another. A header on several lines is refused: most
// headers, and credentials in particular, are no lists (RFC 9110, 5.3), and the proxy cannot decide which line counts.
// Without names the gate is nil. The error is that of registering the metric.
func ForwardHeaders(opt ForwardOptions) (proxy.Gate, error) {
	if len(opt.Names) == 0 {
		return nil, nil
	}
	reg := policies.NewRegistry(opt.Metrics)
	count := reg.Counter("dragoman_forwarded_headers_total",
		"Requests by whether they had headers that go on to upstreams (carried), had none, or were refused for them.", "outcome")
	c := &forwarder{none: new(proxy.Forwarded), carried: count.WithLabelValues("carried"), empty: count.WithLabelValues("none"), refused: count.WithLabelValues("refused")}
	for _, name := range opt.Names {
		if name = strings.ToLower(name); !slices.Contains(c.names, name) {
			c.names = append(c.names, name)
		}
	}
	slices.Sort(c.names)
	if c.key = make([]byte, sha256.Size); len(opt.Key) > 0 {
		mac := hmac.New(sha256.New, opt.Key)
		mac.Write([]byte("dragoman carried headers"))
		c.key = mac.Sum(nil)
	} else {
		_, _ = rand.Read(c.key) // never fails: crypto/rand ends the process instead
	}
	return c.judge, reg.Err()
}

type forwarder struct {
	names []string // in lower case, sorted
	key   []byte
	none  *proxy.Forwarded // shared by all requests without these headers

	carried, empty, refused prometheus.Counter
}

func (c *forwarder) judge(h *proxy.Head) *proxy.Error {
	headers, err := c.take(h.Fields)
	if err != nil {
		c.refused.Inc()
		return err
	}
	if len(headers) == 0 {
		c.empty.Inc()
		h.Caller.Forwarded = c.none
		return nil
	}
	c.carried.Inc()
	carried := &proxy.Forwarded{Headers: headers, Sum: c.sum(headers)}
	if h.Caller.Principal == "" && carried.Sum != [16]byte{} {
		carried.Alone = true
		h.Caller.Principal = carriedPrincipal + hex.EncodeToString(carried.Sum[:])
	}
	h.Caller.Forwarded = carried
	return nil
}

// take copies the headers, sorted by name. An empty header counts as absent. Errors name headers, never values.
func (c *forwarder) take(fields proxy.Fields) (all []proxy.Header, err *proxy.Error) {
	size := 0
	for _, name := range c.names {
		lines := fields.PeekAll(name)
		if len(lines) == 0 || len(lines) == 1 && len(lines[0]) == 0 {
			continue
		}
		if len(lines) > 1 {
			return nil, proxy.Errf(proxy.InvalidRequest, "several headers %s came, which forward_headers passes on to a server; send one", name)
		}
		if size += len(lines[0]); size > maxCarried {
			return nil, proxy.Errf(proxy.HeadTooLarge, "the headers that forward_headers passes on to servers are larger than %d bytes; send shorter ones", maxCarried)
		}
		if !httpguts.ValidHeaderFieldValue(string(lines[0])) {
			return nil, proxy.Errf(proxy.InvalidRequest, "the header %s, which forward_headers passes on to a server, has a control character", name)
		}
		all = append(all, proxy.Header{Name: name, Value: string(lines[0])})
	}
	return all, nil
}

// sum returns the HMAC of the headers that identify the caller, or zero if there are none.
func (c *forwarder) sum(headers []proxy.Header) (sum [16]byte) {
	mac := hmac.New(sha256.New, c.key)
	identifying := false
	for _, x := range headers {
		if proxy.Identifies(x.Name) {
			identifying = true
			add(mac, x.Name)
			add(mac, x.Value)
		}
	}
	if identifying {
		copy(sum[:], mac.Sum(nil))
	}
	return sum
}

func add(mac hash.Hash, text string) {
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(text)))
	mac.Write(n[:])
	mac.Write([]byte(text))
}
