package otlp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

const (
	closeTime = 5 * time.Second // for what waits to be sent when the end has come
	letGoTime = time.Second     // for what is being sent then to notice
	noteEvery = time.Minute     // between two reports of failures
)

// Options say where spans go, and which.
type Options struct {
	URL     string            // where to post to, path included: http or https
	Headers map[string]string // of each post; never logged
	CAFile  string            // PEM file of the roots to trust instead of the system's; empty: those
	Timeout time.Duration     // for one post, with what is tried again of it
	Ratio   float64           // of the traces that begin here, 0 to 1; those that do not are as their parent is
	Queue   int               // spans that wait at most; further ones are dropped
	Batch   int               // spans in one post, at most Queue
	Wait    time.Duration     // for a batch to fill

	Service, Version, Instance string // who sends them: service.name, service.version, service.instance.id

	// Failed is told of a failure, at most once a minute, and how many spans were lost since it was told last; nil: nobody is.
	Failed func(err error, lost uint64)
	Now    func() time.Time // nil: time.Now
}

// Exporter sends spans. Its methods may be called from any goroutine.
type Exporter struct {
	opt      Options
	sender   sdk.SpanExporter
	entry    entering
	provider *sdk.TracerProvider
	idle     func()

	ending context.Context // ends when no more time is left
	end    context.CancelFunc
	ended  chan struct{} // nothing is sent any more
	closed atomic.Bool
	heir   atomic.Pointer[Exporter] // takes the spans that end later; nil: nobody does

	waiting                   atomic.Int64
	exported, dropped, failed atomic.Uint64

	mu   sync.Mutex
	told time.Time
	lost uint64 // since
}

// New makes an exporter, which sends nothing until there is a span. Close must be called. Of the environment it takes
// OTEL_RESOURCE_ATTRIBUTES, which describe where it runs, and the usual proxies; no other OTEL_ variable changes anything: hosts hand
// theirs down to the servers that they start.
func New(opt Options) (*Exporter, error) {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	e := &Exporter{opt: opt, ended: make(chan struct{})}
	roots, err := pool(opt.CAFile)
	if err != nil {
		return nil, err
	}
	// HTTP/1.1, which every collector speaks; releases are built without HTTP/2.
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		MaxIdleConns: 2, IdleConnTimeout: 30 * time.Second, TLSHandshakeTimeout: opt.Timeout}
	e.idle = transport.CloseIdleConnections
	client := &http.Client{Transport: transport, Timeout: opt.Timeout, // elsewhere nobody is shown the headers
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	e.sender = otlptrace.NewUnstarted(&poster{opt.URL, "dragoman/" + opt.Version, opt.Headers, client, opt.Timeout}) // there is nothing to start
	e.ending, e.end = context.WithCancel(context.Background())
	e.entry = entering{sdk.NewBatchSpanProcessor(sending{e}, sdk.WithMaxQueueSize(opt.Queue), sdk.WithMaxExportBatchSize(opt.Batch), sdk.WithBatchTimeout(opt.Wait),
		sdk.WithExportTimeout(opt.Timeout)), e}
	e.provider = sdk.NewTracerProvider(sdk.WithSpanProcessor(e.entry), sdk.WithSampler(sdk.ParentBased(sdk.TraceIDRatioBased(opt.Ratio))),
		sdk.WithRawSpanLimits(limits), sdk.WithResource(resource.NewSchemaless(attribute.String("service.name", opt.Service),
			attribute.String("service.version", opt.Version), attribute.String("service.instance.id", opt.Instance))))
	return e, nil
}

// limits bound one span, whatever is written into it.
var limits = sdk.SpanLimits{AttributeValueLengthLimit: 4 << 10, AttributeCountLimit: 64, EventCountLimit: 64, LinkCountLimit: 8,
	AttributePerEventCountLimit: 16, AttributePerLinkCountLimit: 8}

// pool reads the roots of a PEM file; nil: the system's.
func pool(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil //nolint:nilnil // the system's
	}
	raw, err := os.ReadFile(file) //nolint:gosec // the operator names it
	if err != nil {
		return nil, fmt.Errorf("otlp: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(raw) {
		return nil, fmt.Errorf("otlp: %s has no certificate in PEM", file)
	}
	return roots, nil
}

// Tracer makes spans.
func (e *Exporter) Tracer() trace.Tracer {
	return e.provider.Tracer("dragoman", trace.WithInstrumentationVersion(e.opt.Version))
}

// Stats tells what has become of the spans that were to be recorded: those that a collector has taken, those for which there was no
// room, those that were given up because the collector would not take them, and how many wait.
func (e *Exporter) Stats() (exported, dropped, failed uint64, waiting int) {
	return e.exported.Load(), e.dropped.Load(), e.failed.Load(), int(e.waiting.Load())
}

// Bequeath names the exporter that takes the spans that end after Close: those of requests that had begun before another configuration.
func (e *Exporter) Bequeath(to *Exporter) { e.heir.Store(to) }

// Close sends what waits, for as long as it takes within 5 s, and ends. Spans that end later are its heir's, or lost.
func (e *Exporter) Close() {
	if e.closed.Swap(true) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	// What could not be sent was counted. The provider stays: without it spans that end now would not come here.
	_ = e.entry.Shutdown(ctx)
	e.end()
	select {
	case <-e.ended:
	case <-time.After(letGoTime):
	}
	e.idle()
}

// entering lets spans into the queue while there is room.
type entering struct {
	sdk.SpanProcessor
	e *Exporter
}

// OnEnd implements sdk.SpanProcessor. It never waits.
func (n entering) OnEnd(s sdk.ReadOnlySpan) {
	if !s.SpanContext().IsSampled() {
		return
	}
	if n.e.closed.Load() {
		if heir := n.e.heir.Load(); heir != nil {
			heir.entry.OnEnd(s)
			return
		}
		n.e.dropped.Add(1)
		return
	}
	if n.e.waiting.Add(1) > int64(n.e.opt.Queue) {
		n.e.waiting.Add(-1)
		n.e.dropped.Add(1)
		return
	}
	n.SpanProcessor.OnEnd(s)
}

// sending takes batches to the collector.
type sending struct{ e *Exporter }

// ExportSpans implements sdk.SpanExporter. Failures are told here, and to nobody else.
func (s sending) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	e, n := s.e, len(spans)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.ending, cancel)()
	err := e.sender.ExportSpans(ctx, spans)
	e.waiting.Add(int64(-n))
	lost := uint64(n)
	var partial *errPartial
	switch {
	case err == nil:
		lost = 0
	case errors.As(err, &partial):
		lost = min(partial.rejected, lost)
	}
	e.exported.Add(uint64(n) - lost)
	e.failed.Add(lost)
	if lost > 0 {
		e.note(err, lost)
	}
	return nil
}

// Shutdown implements sdk.SpanExporter.
func (s sending) Shutdown(ctx context.Context) error {
	defer close(s.e.ended)
	return s.e.sender.Shutdown(ctx)
}

// note tells of a failure, unless one was told of lately.
func (e *Exporter) note(err error, n uint64) {
	e.mu.Lock()
	e.lost += n
	now, lost := e.opt.Now(), e.lost
	tell := e.opt.Failed != nil && (e.told.IsZero() || now.Sub(e.told) >= noteEvery)
	if tell {
		e.told, e.lost = now, 0
	}
	e.mu.Unlock()
	if tell {
		e.opt.Failed(plain(err), lost)
	}
}

// plain leaves out what the libraries say around the cause.
func plain(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("otlp: the collector did not answer in time: %w", err)
	}
	return fmt.Errorf("otlp: %w", err)
}
