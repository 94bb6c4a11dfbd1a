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
	closeTime = 5 * time.Second // timeout of Close for the queued spans
	abortTime = time.Second     // for a post in progress to end after that
	noteEvery = time.Minute     // between two reports of failures
)

// Options configure an Exporter.
type Options struct {
	URL     string            // of the collector, path included: http or https
	Headers map[string]string // of each post; never logged
	CAFile  string            // PEM file of the roots to trust instead of the system's; empty: the system's
	Timeout time.Duration     // for one post with its retries
	Ratio   float64           // of the traces that begin here that are sampled, 0 to 1; others follow their parent
	Queue   int               // spans that may be queued; further ones are dropped
	Batch   int               // spans in one post, at most Queue
	Wait    time.Duration     // for a batch to fill

	Service, Version, Instance string // service.name, service.version, service.instance.id

	// Failed receives a failure, at most once a minute, and the number of spans that were lost since the last one. May be nil.
	Failed func(err error, lost uint64)
	Now    func() time.Time // nil: time.Now
}

// Exporter sends spans. It is safe for concurrent use.
type Exporter struct {
	opt      Options
	sender   sdk.SpanExporter
	entry    entering
	provider *sdk.TracerProvider
	idle     func()

	ending    context.Context // ends when Close has no more time
	end       context.CancelFunc
	ended     chan struct{} // closed when nothing is sent any more
	closed    atomic.Bool
	successor atomic.Pointer[Exporter] // receives the spans that end later; nil: they are dropped

	waiting                   atomic.Int64
	exported, dropped, failed atomic.Uint64

	mu        sync.Mutex
	reported  time.Time
	lostSince uint64 // spans lost since reported
}

// New makes an Exporter. Close must be called. Of the environment it reads OTEL_RESOURCE_ATTRIBUTES, which describe where it runs, and
// the usual proxy variables. It ignores all other OTEL_ variables: hosts pass their own on to the servers that they start.
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
	client := &http.Client{Transport: transport, Timeout: opt.Timeout, // no other host may see the headers
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	e.sender = otlptrace.NewUnstarted(&poster{opt.URL, "dragoman/" + opt.Version, opt.Headers, client, opt.Timeout}) // it has nothing to start
	e.ending, e.end = context.WithCancel(context.Background())
	e.entry = entering{sdk.NewBatchSpanProcessor(sending{e}, sdk.WithMaxQueueSize(opt.Queue), sdk.WithMaxExportBatchSize(opt.Batch), sdk.WithBatchTimeout(opt.Wait),
		sdk.WithExportTimeout(opt.Timeout)), e}
	e.provider = sdk.NewTracerProvider(sdk.WithSpanProcessor(e.entry), sdk.WithSampler(sdk.ParentBased(sdk.TraceIDRatioBased(opt.Ratio))),
		sdk.WithRawSpanLimits(limits), sdk.WithResource(resource.NewSchemaless(attribute.String("service.name", opt.Service),
			attribute.String("service.version", opt.Version), attribute.String("service.instance.id", opt.Instance))))
	return e, nil
}

// limits bound the size of one span.
var limits = sdk.SpanLimits{AttributeValueLengthLimit: 4 << 10, AttributeCountLimit: 64, EventCountLimit: 64, LinkCountLimit: 8,
	AttributePerEventCountLimit: 16, AttributePerLinkCountLimit: 8}

// pool reads the roots of a PEM file. It returns nil, which stands for the system's, if file is empty.
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

// Tracer returns the tracer whose spans are sent.
func (e *Exporter) Tracer() trace.Tracer {
	return e.provider.Tracer("dragoman", trace.WithInstrumentationVersion(e.opt.Version))
}

// Stats returns the number of spans that the collector has accepted, that were dropped because the queue was full, that were lost
// because the collector was unreachable or refused them, and that are queued.
func (e *Exporter) Stats() (exported, dropped, failed uint64, waiting int) {
	return e.exported.Load(), e.dropped.Load(), e.failed.Load(), int(e.waiting.Load())
}

// HandOver sets the exporter that receives the spans that end after Close: those of requests that began before a reload.
func (e *Exporter) HandOver(to *Exporter) { e.successor.Store(to) }

// Close sends the queued spans, for at most 5 s. Spans that end later go to the exporter of HandOver, or are lost.
func (e *Exporter) Close() {
	if e.closed.Swap(true) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	// Spans that could not be sent are counted. The provider is not shut down: it would not pass on spans that end now.
	_ = e.entry.Shutdown(ctx)
	e.end()
	select {
	case <-e.ended:
	case <-time.After(abortTime):
	}
	e.idle()
}

// entering passes spans to the queue if there is room.
type entering struct {
	sdk.SpanProcessor
	e *Exporter
}

// OnEnd implements sdk.SpanProcessor. It never blocks.
func (n entering) OnEnd(s sdk.ReadOnlySpan) {
	if !s.SpanContext().IsSampled() {
		return
	}
	if n.e.closed.Load() {
		if successor := n.e.successor.Load(); successor != nil {
			successor.entry.OnEnd(s)
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

// sending sends batches to the collector.
type sending struct{ e *Exporter }

// ExportSpans implements sdk.SpanExporter. It reports failures to Options.Failed only.
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

// note reports a failure, unless one was reported within noteEvery.
func (e *Exporter) note(err error, n uint64) {
	e.mu.Lock()
	e.lostSince += n
	now, lost := e.opt.Now(), e.lostSince
	tell := e.opt.Failed != nil && (e.reported.IsZero() || now.Sub(e.reported) >= noteEvery)
	if tell {
		e.reported, e.lostSince = now, 0
	}
	e.mu.Unlock()
	if tell {
		e.opt.Failed(plain(err), lost)
	}
}

// plain reduces an error to its cause.
func plain(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("otlp: the collector did not answer in time: %w", err)
	}
	return fmt.Errorf("otlp: %w", err)
}
