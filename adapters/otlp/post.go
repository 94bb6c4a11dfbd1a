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

// poster is an otlptrace.Client: OTLP/HTTP of protobuf, gzipped. It stands in for OpenTelemetry's otlptracehttp, which links all of gRPC
// for the types of one request: a quarter of the program, for nothing that is used.
type poster struct {
	url     string
	agent   string // User-Agent
	headers map[string]string
	client  *http.Client
	timeout time.Duration // for a post, with what is tried again of it
}

// errPartial tells that a collector has refused spans of a post that it took.
type errPartial struct {
	rejected uint64
	message  string
}

func (e *errPartial) Error() string {
	return fmt.Sprintf("the collector has refused %d of the spans: %q", e.rejected, e.message)
}

// Start implements otlptrace.Client.
func (*poster) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client. Posts that are under way end with their context.
func (*poster) Stop(context.Context) error { return nil }

// UploadTraces implements otlptrace.Client. A post is tried again where the collector says that it may be (OTLP 1.x, "Failures" and
// "OTLP/HTTP Throttling"), or where it cannot be reached. The error is the last one, errPartial where only some spans were refused.
func (p *poster) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	// A request to export has the same one field of the same number.
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

// post sends once. The second error is what backoff.Retry is to be told of the first.
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
	case res.StatusCode/100 == 2: // taken, whatever became of the answer
		return nil, nil
	}
	err = fmt.Errorf("the collector answered %s", res.Status)
	switch res.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return err, errors.Join(err, wait(res.Header.Get("Retry-After")))
	}
	return err, backoff.Permanent(err)
}

// wait is how long a collector wants not to be asked, in seconds or until a date (RFC 9110 §10.2.3); nil: it does not say.
func wait(after string) error {
	if seconds, err := strconv.Atoi(after); err == nil && seconds >= 0 {
		return backoff.RetryAfter(seconds)
	}
	if at, err := http.ParseTime(after); err == nil {
		return &backoff.RetryAfterError{Duration: max(0, time.Until(at))}
	}
	return nil
}

// refused reads ExportTraceServiceResponse: its field 1 has how many spans were refused (1) and why (2). nil: none were, or it is no such
// message, which is nothing to fail for.
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

// fields calls for each field of a message, up to its first fault; number is a varint's, raw that of a field with a length.
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
