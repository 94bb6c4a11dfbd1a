// Package webhook sends CloudEvents over HTTP (CloudEvents 1.0, HTTP protocol binding), signed as Standard Webhooks says.
package webhook

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"dragoman/adapters/events"
	"dragoman/adapters/httpd/http1"
	"dragoman/adapters/httpd/httpclient"
)

// Values of [Options.Mode].
const (
	Structured = "structured" // the body is an event in JSON
	Binary     = "binary"     // the body is the data of an event, headers are its attributes
	Batched    = "batched"    // the body is an array of events in JSON
)

// Options configures a [Sink].
type Options struct {
	URL  string // http, https, or unix:/path/to/socket, to which :/path/of/the/resource may be added
	Mode string
	// Secret is the key of the signature, see [Secret]; nil: requests are not signed.
	Secret  []byte
	Headers []httpclient.Header // of every request; values are never logged
	CAFile  string              // PEM file of the roots to trust instead of the system's
	Timeout time.Duration       // to connect, and of each write
	AtATime int                 // requests
	Agent   string              // User-Agent
}

// Sink sends events to a receiver. It follows no redirects.
type Sink struct {
	opt  Options
	host *httpclient.Host
}

// New returns a Sink, which connects when it has something to send.
func New(opt Options) (*Sink, error) {
	host, err := httpclient.NewHost(httpclient.HostOptions{URL: opt.URL, Headers: opt.Headers, CAFile: opt.CAFile, ConnectTimeout: opt.Timeout, WriteTimeout: opt.Timeout,
		MaxIdle: opt.AtATime, MaxConns: 2 * opt.AtATime}) // one that is cut off may not have ended when the next begins
	if err != nil {
		return nil, err
	}
	return &Sink{opt, host}, nil
}

// secretPrefix begins a secret in Base64 (Standard Webhooks, Symmetric signature).
const secretPrefix = "whsec_"

// leastSecret is how many bytes a key has at least (Standard Webhooks).
const leastSecret = 24

// Secret returns the key that a text stands for: behind whsec_ it is in Base64, any other text is the key itself. A key of less than 24 bytes is
// an error.
func Secret(text string) ([]byte, error) {
	key := []byte(text)
	if encoded, is := strings.CutPrefix(text, secretPrefix); is {
		var err error
		if key, err = base64.StdEncoding.DecodeString(encoded); err != nil {
			return nil, errors.New("is no Base64 behind whsec_ (the value is not shown)")
		}
	}
	if len(key) < leastSecret {
		return nil, fmt.Errorf("has less than %d bytes", leastSecret)
	}
	return key, nil
}

// Deliver implements events.Sink. A status of 2xx is success. Others than 408, 425, 429 and 5xx are final.
func (s *Sink) Deliver(ctx context.Context, all []*events.Event) error {
	req := s.request(all)
	defer req.Release()
	answer, err := s.host.Send(ctx, req)
	if err != nil {
		var malformed *http1.MalformedError
		return &events.Refusal{Err: failed(ctx, err), Final: errors.As(err, &malformed)}
	}
	defer answer.Finish()
	defer context.AfterFunc(ctx, answer.Abort)()
	status, fields, err := answer.Head(time.Time{})
	if err != nil {
		return failed(ctx, err)
	}
	_, _ = answer.Body(nil, maxAnswer, time.Time{}) // so that the connection can be used again; what it says does not matter
	if status >= 200 && status < 300 {
		return nil
	}
	refusal := &events.Refusal{Err: fmt.Errorf("the receiver answered HTTP %s", httpclient.Reason(status)), Final: final(status)}
	if !refusal.Final {
		refusal.After = retryAfter(string(fields.Peek("Retry-After")), time.Now())
	}
	return refusal
}

// maxAnswer bounds the body of an answer that is read, in bytes.
const maxAnswer = 16 << 10

// failed returns the cause of a failure: that time is up, or that of the connection.
func failed(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return errors.New("the receiver did not answer in time")
	}
	return err
}

// final reports whether a receiver that answers with a status never takes what it has got.
func final(status int) bool {
	return status < 500 && status != 408 && status != 425 && status != 429
}

// retryAfter reads Retry-After, in seconds or as a date (RFC 9110 §10.2.3); 0: there is none.
func retryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := time.Parse(time.RFC1123, text); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

// request makes the request for events. Only the batched mode has several.
func (s *Sink) request(all []*events.Event) *http1.Request {
	var body []byte
	var headers []events.Header
	switch s.opt.Mode {
	case Binary:
		body, headers = all[0].Data, all[0].Headers()
	case Batched:
		body = append(body, '[')
		for i, e := range all {
			if i > 0 {
				body = append(body, ',')
			}
			body = e.AppendJSON(body)
		}
		body, headers = append(body, ']'), []events.Header{{Name: "Content-Type", Value: events.Batched}}
	default:
		body, headers = all[0].AppendJSON(nil), []events.Header{{Name: "Content-Type", Value: events.Structured}}
	}
	req := http1.AcquireRequest("POST", "", body)
	for _, h := range headers {
		_ = req.Set(h.Name, h.Value) // Send returns what is wrong
	}
	_ = req.Set("User-Agent", s.opt.Agent)
	id := "msg_" + events.ShortKey(all)
	_ = req.Set("webhook-id", id)
	if s.opt.Secret != nil {
		stamp := strconv.FormatInt(time.Now().Unix(), 10)
		_ = req.Set("webhook-timestamp", stamp)
		_ = req.Set("webhook-signature", Sign(s.opt.Secret, id, stamp, body))
	}
	return req
}

// Sign returns the signature of a request: v1, and HMAC-SHA256 of its id, time and body in Base64 (Standard Webhooks, Signature scheme). A receiver
// computes the same and compares in constant time; it also compares the time with its own clock, so that what somebody has seen cannot be sent again
// later.
func Sign(key []byte, id, stamp string, body []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + stamp + "."))
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// Close implements events.Sink.
func (s *Sink) Close() error { return s.host.Close() }
