// Package endpoint asks a service for vectors, by the API for embeddings of OpenAI, which Ollama, vLLM and Text Embeddings Inference have, too.
package endpoint

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/goccy/go-json"

	"dragoman/adapters/httpd/http1"
	"dragoman/adapters/httpd/httpclient"
	"dragoman/adapters/search/embedding"
	"dragoman/proxy/redact"
	"dragoman/proxy/wire"
)

// Bounds of requests and answers.
const (
	batchTexts  = 64        // of one request
	batchBytes  = 512 << 10 // of their texts; one text may exceed it
	atATime     = 4         // requests; further ones wait in their own time
	maxNumber   = 32        // bytes of a number in an answer, with what surrounds it
	maxOverhead = 64 << 10  // bytes of an answer besides the numbers
	retryMost   = 10 * time.Second
)

// Options configure a Model. A zero value stands for the default at the end of each comment.
type Options struct {
	// URL is that below which /embeddings is, http, https or unix, such as https://api.openai.com/v1 or http://localhost:11434/v1.
	URL    string
	Model  string // as the service names it
	Key    string // sent as a bearer token, never part of an error; empty: none is sent
	CAFile string // PEM file of the roots to trust instead of the system's
	Proxy  string // as in httpclient.HostOptions
	// Dimension is that of the model's vectors; others are an error. 0: that of the first answer.
	Dimension int
	Timeout   time.Duration // for one request; 30 s
	Patience  time.Duration // for a request with its repetitions, unless the context ends before; 1 min

	retryFirst time.Duration // before the first repetition, about; 500 ms
}

// Model is a model at a service. It implements [embedding.Model].
type Model struct {
	opt       Options
	host      *httpclient.Host
	name      string
	asked     chan struct{} // has an element for each request in progress
	dimension atomic.Int64  // 0: not known yet
}

// New returns a Model, which connects when it is used first. The caller must close it.
func New(opt Options) (*Model, error) {
	if opt.Model == "" {
		return nil, errors.New("embedding: the name of the model is missing; fix: set it to the name that the service has for it, such as all-minilm")
	}
	if opt.Dimension < 0 || opt.Dimension > embedding.MaxDimension {
		return nil, fmt.Errorf("embedding: %d is no dimension of vectors; fix: set one of at most %d", opt.Dimension, embedding.MaxDimension)
	}
	opt.Timeout, opt.Patience, opt.retryFirst = either(opt.Timeout, 30*time.Second), either(opt.Patience, time.Minute), either(opt.retryFirst, 500*time.Millisecond)
	at, shown := below(opt.URL)
	host := httpclient.HostOptions{URL: at, CAFile: opt.CAFile, Proxy: opt.Proxy, ConnectTimeout: opt.Timeout, WriteTimeout: opt.Timeout, MaxConns: atATime}
	if opt.Key != "" {
		host.Headers = []httpclient.Header{{Name: "Authorization", Value: "Bearer " + opt.Key}}
		host.Secrets = redact.New(opt.Key)
	}
	made, err := httpclient.NewHost(host)
	if err != nil {
		return nil, fmt.Errorf("embedding: %w", err)
	}
	m := &Model{opt: opt, host: made, name: opt.Model + "@" + shown, asked: make(chan struct{}, atATime)}
	m.dimension.Store(int64(opt.Dimension))
	return m, nil
}

// below returns the URL of /embeddings below another, and as it may be shown: without a query, which may hold a secret.
func below(base string) (at, shown string) {
	rest, query, asks := strings.Cut(base, "?")
	if socket, unix := strings.CutPrefix(rest, "unix:"); unix && !strings.Contains(socket, ":") {
		rest += ":"
	}
	shown = strings.TrimRight(rest, "/") + "/embeddings"
	if asks {
		return shown + "?" + query, shown
	}
	return shown, shown
}

func either(d, otherwise time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return otherwise
}

// Name implements [embedding.Model]: the service's name of the model, and its URL.
func (m *Model) Name() string { return m.name }

// Close closes the connections that are not used.
func (m *Model) Close() error { return m.host.Close() }

// Embed implements [embedding.Model]. Texts are sent in batches, one after the other. A batch that fails for a reason that may pass (429, 408, 5xx,
// no connection, no answer in time) is sent again, later each time or as the service says, until Patience is over.
func (m *Model) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	all := make([][]float32, 0, len(texts))
	for len(all) < len(texts) {
		next, err := m.batch(ctx, some(texts[len(all):]))
		if err != nil {
			return nil, err
		}
		all = append(all, next...)
	}
	return all, nil
}

// some returns as many texts as a batch holds.
func some(texts []string) []string {
	size := 0
	for i, text := range texts {
		if size += len(text); i > 0 && (i == batchTexts || size > batchBytes) {
			return texts[:i]
		}
	}
	return texts
}

// batch sends texts until they are answered, or the failure is final.
func (m *Model) batch(ctx context.Context, texts []string) ([][]float32, error) {
	body, err := json.Marshal(struct {
		Model  string   `json:"model"`
		Input  []string `json:"input"`
		Format string   `json:"encoding_format"`
	}{m.opt.Model, texts, "float"})
	if err != nil {
		return nil, fmt.Errorf("embedding: %w", err)
	}
	select {
	case m.asked <- struct{}{}:
		defer func() { <-m.asked }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	var last error
	vectors, err := backoff.Retry(ctx, func() (vectors [][]float32, again error) {
		vectors, again = m.send(ctx, body, len(texts))
		last = again
		var wait *backoff.RetryAfterError
		if failed, ok := errors.AsType[*statusError](again); ok && failed.after > 0 {
			wait = &backoff.RetryAfterError{Duration: failed.after}
			return nil, wait
		}
		return vectors, again
	}, backoff.WithMaxElapsedTime(m.opt.Patience), backoff.WithBackOff(&backoff.ExponentialBackOff{InitialInterval: m.opt.retryFirst, MaxInterval: retryMost,
		Multiplier: backoff.DefaultMultiplier, RandomizationFactor: backoff.DefaultRandomizationFactor}))
	switch {
	case err == nil:
		return vectors, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	if permanent, ok := errors.AsType[*backoff.PermanentError](last); ok {
		last = permanent.Unwrap()
	}
	return nil, fmt.Errorf("embedding: %w", last)
}

// errSlow is the cause of a request that is given up.
var errSlow = errors.New("the answer did not come in time")

// send sends a request once. An error that is final is a *backoff.PermanentError.
func (m *Model) send(ctx context.Context, body []byte, count int) ([][]float32, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, m.opt.Timeout, errSlow)
	defer cancel()
	req := http1.AcquireRequest("POST", "", body)
	defer req.Release()
	_ = req.Set("Accept", "application/json")
	_ = req.Set("Content-Type", "application/json")
	status, after, raw, err := m.exchange(ctx, req, count)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if _, large := errors.AsType[*http1.TooLargeError](err); large {
			return nil, backoff.Permanent(fmt.Errorf("the answer of %s is too large for %d vectors; fix: check that the URL is that of a service with OpenAI's API for embeddings", m.host.Authority(), count))
		}
		return nil, fmt.Errorf("the embedding service at %s gives no answer: %w; fix: check that it runs, and the URL", m.host.Authority(), err)
	}
	if status != 200 {
		return nil, m.refused(ctx, status, after, raw)
	}
	vectors, err := m.read(raw, count)
	if err != nil {
		return nil, backoff.Permanent(err)
	}
	return vectors, nil
}

// exchange sends a request and reads the answer whole.
func (m *Model) exchange(ctx context.Context, req *http1.Request, count int) (status int, after string, body []byte, err error) {
	answer, err := m.host.Send(ctx, req)
	if err != nil {
		return 0, "", nil, err
	}
	defer answer.Close()
	defer context.AfterFunc(ctx, answer.Abort)()
	status, fields, err := answer.Head(time.Time{})
	if err != nil {
		return 0, "", nil, err
	}
	after = string(fields.Peek("Retry-After"))
	dimension := int(m.dimension.Load())
	if dimension == 0 {
		dimension = embedding.MaxDimension
	}
	body, err = answer.Body(nil, maxOverhead+count*dimension*maxNumber, time.Time{})
	return status, after, body, err
}

// statusError is an answer with another status than 200.
type statusError struct {
	text  string
	after time.Duration // when to try again; 0: as we like
}

func (e *statusError) Error() string { return e.text }

// refused returns the error of a status, with the reason that the service gives, and what to do about it.
func (m *Model) refused(ctx context.Context, status int, after string, body []byte) error {
	e := &statusError{text: fmt.Sprintf("the embedding service at %s answered HTTP %d", m.host.Authority(), status)}
	if why := reason(body); why != "" {
		e.text += fmt.Sprintf(" (%s)", wire.Shown(m.host.Hide(ctx, why)))
	}
	switch {
	case status == 401 || status == 403:
		e.text += "; fix: check its key"
	case status == 404:
		e.text += fmt.Sprintf("; fix: check that the URL ends where /embeddings begins, often in /v1, and that the service has the model %s (Ollama: ollama pull %[1]s)", wire.Shown(m.opt.Model))
	case status == 429:
		e.after = later(after)
		e.text += "; fix: raise the limit of the key, or try later"
		return e
	case status == 408 || status >= 500:
		e.after = later(after)
		e.text += "; fix: see the log of that service"
		return e
	default:
		e.text += "; fix: check the name of the model, and that the service has OpenAI's API for embeddings"
	}
	return backoff.Permanent(e)
}

// later reads Retry-After (RFC 9110 §10.2.3), in seconds or as a date.
func later(after string) time.Duration {
	if seconds, err := strconv.ParseUint(after, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := time.Parse(time.RFC1123, after); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}

// reason returns what an answer says of its status: {"error": "…"}, {"error": {"message": "…"}} or {"message": "…"}; empty: nothing.
func reason(body []byte) string {
	var answer struct {
		Error   json.RawMessage
		Message string
	}
	if json.Unmarshal(body, &answer) != nil {
		return ""
	}
	var inner struct{ Message string }
	var text string
	switch {
	case json.Unmarshal(answer.Error, &text) == nil && text != "":
		return text
	case json.Unmarshal(answer.Error, &inner) == nil && inner.Message != "":
		return inner.Message
	}
	return answer.Message
}

// read returns the vectors of an answer in the order of the texts, of length one.
func (m *Model) read(body []byte, count int) ([][]float32, error) {
	var answer struct {
		Data []struct {
			Index     *int
			Embedding []float32
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("the answer of %s is not that of OpenAI's API for embeddings; fix: check the URL", m.host.Authority())
	}
	if len(answer.Data) != count {
		return nil, fmt.Errorf("%s answered %d vectors for %d texts; fix: check that the service has OpenAI's API for embeddings", m.host.Authority(), len(answer.Data), count)
	}
	vectors := make([][]float32, count)
	for i, one := range answer.Data {
		if one.Index != nil {
			i = *one.Index
		}
		if i < 0 || i >= count || vectors[i] != nil {
			return nil, fmt.Errorf("%s answered vectors whose indexes are not those of the texts; fix: see the log of that service", m.host.Authority())
		}
		if err := m.measure(len(one.Embedding)); err != nil {
			return nil, err
		}
		if err := embedding.Normalise(one.Embedding); err != nil {
			return nil, err
		}
		vectors[i] = one.Embedding
	}
	return vectors, nil
}

// measure reports a vector of another dimension than the others.
func (m *Model) measure(n int) error {
	if n > 0 && n <= embedding.MaxDimension && m.dimension.CompareAndSwap(0, int64(n)) {
		return nil
	}
	if want := m.dimension.Load(); int64(n) != want || n == 0 {
		return fmt.Errorf("%s answered a vector of %d numbers where %d are expected; fix: set the dimension of the model, at most %d, or name the model that was used before", m.host.Authority(), n, want, embedding.MaxDimension)
	}
	return nil
}

var _ embedding.Model = (*Model)(nil)
