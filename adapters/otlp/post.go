package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/cenkalti/backoff/v5"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

const (
	retryFirst = 500 * time.Millisecond
	retryMost  = 5 * time.Second
	maxAnswer  = 64 << 10 // of the collector
)

// poster is an otlptrace.Client: OTLP/HTTP with protobuf, gzipped. It replaces OpenTelemetry's otlptracehttp, which links all of gRPC
// for the types of one request: a quarter of the binary.
type poster struct {
	url     string
	agent   string // User-Agent
	headers map[string]string
	client  *http.Client
	timeout time.Duration // for a post with its retries
}

// errPartial is the error of a post of which the collector has refused some spans.
type errPartial struct {
	rejected uint64
	message  string
}

func (e *errPartial) Error() string {
	return fmt.Sprintf("the collector has refused %d of the spans: %q", e.rejected, e.message)
}

// Start implements otlptrace.Client.
func (*poster) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client. Posts in progress end with their context.
func (*poster) Stop(context.Context) error { return nil }

// UploadTraces implements otlptrace.Client. It retries a post if the collector allows it (OTLP 1.x, "Failures" and "OTLP/HTTP
// Throttling") or cannot be reached. The error is the last one; it is an errPartial if only some spans were refused.
func (p *poster) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	// An ExportTraceServiceRequest has the same single field of the same number.
	raw, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return err
	}
	var body bytes.Buffer
	zip := gzip.NewWriter(&body)
	if _, err = zip.Write(raw); err == nil {
		err = zip.Close()
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	var last error
	_, err = backoff.Retry(ctx, func() (struct{}, error) {
		var after error
		last, after = p.post(ctx, body.Bytes())
		return struct{}{}, after
	}, backoff.WithMaxElapsedTime(p.timeout), backoff.WithBackOff(&backoff.ExponentialBackOff{InitialInterval: retryFirst, MaxInterval: retryMost,
		Multiplier: backoff.DefaultMultiplier, RandomizationFactor: backoff.DefaultRandomizationFactor}))
	if err == nil {
		return nil
	}
	return last
}

// post sends once. again is the error in the form that backoff.Retry expects.
func (p *poster) post(ctx context.Context, body []byte) (err, again error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(body))
	if err != nil {
		return err, backoff.Permanent(err)
	}
	req.Header.Set("User-Agent", p.agent)
	for name, value := range p.headers {
		req.Header.Set(name, value)
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("Content-Encoding", "gzip")
	res, err := p.client.Do(req)
	if err != nil {
		return err, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	switch {
	case res.StatusCode == http.StatusOK && err == nil:
		if partial := refused(answer); partial != nil {
			return partial, backoff.Permanent(partial)
		}
		return nil, nil
	case res.StatusCode/100 == 2: // accepted, even if the answer was lost
		return nil, nil
	}
	err = fmt.Errorf("the collector answered %s", res.Status)
	switch res.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return err, errors.Join(err, wait(res.Header.Get("Retry-After")))
	}
	return err, backoff.Permanent(err)
}

// wait reads Retry-After, in seconds or as a date (RFC 9110 §10.2.3); nil: there is none.
func wait(after string) error {
	if seconds, err := strconv.Atoi(after); err == nil && seconds >= 0 {
		return backoff.RetryAfter(seconds)
	}
	if at, err := http.ParseTime(after); err == nil {
		return &backoff.RetryAfterError{Duration: max(0, time.Until(at))}
	}
	return nil
}

// refused reads an ExportTraceServiceResponse: its field 1 has the number of refused spans (1) and the reason (2). It returns nil if
// none were refused or the message is another one.
func refused(answer []byte) error {
	var partial errPartial
	fields(answer, func(n protowire.Number, _ uint64, inner []byte) {
		if n != 1 {
			return
		}
		fields(inner, func(n protowire.Number, number uint64, text []byte) {
			switch n {
			case 1:
				partial.rejected = number
			case 2:
				partial.message = string(text)
			}
		})
	})
	if partial.rejected == 0 {
		return nil
	}
	return &partial
}

// fields calls each for the fields of a message, up to the first invalid one. number is the value of a varint, raw that of a field with
// a length.
func fields(message []byte, each func(n protowire.Number, number uint64, raw []byte)) {
	for len(message) > 0 {
		n, kind, size := protowire.ConsumeTag(message)
		if size < 0 {
			return
		}
		message = message[size:]
		if size = protowire.ConsumeFieldValue(n, kind, message); size < 0 {
			return
		}
		switch kind {
		case protowire.VarintType:
			number, _ := protowire.ConsumeVarint(message)
			each(n, number, nil)
		case protowire.BytesType:
			raw, _ := protowire.ConsumeBytes(message)
			each(n, 0, raw)
		}
		message = message[size:]
	}
}
