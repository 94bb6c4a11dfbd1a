// Package bert runs a sentence transformer inside the process: an encoder of the BERT architecture with mean or first-token pooling, such as
// all-MiniLM-L6-v2, from the files that its makers publish. It needs neither a network nor a library that is not Go.
//
// No kept library runs these files: those in Go want the model in ONNX, which few packages of it carry, and add more to the binary than
// everything else that searches.
package bert

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"dragoman/adapters/search/embedding"
)

// chunkTokens is how many tokens are computed at a time. Between two chunks another caller has its turn, so that a query never waits for all
// tools of a server; the last text of a chunk may exceed it.
const chunkTokens = 128

// Model is a sentence transformer in a directory. It implements [embedding.Model]. Its weights are read when it is first used, and take 43 MB of
// memory for all-MiniLM-L6-v2; the vectors of words stay in the file, which remains open until Close.
type Model struct {
	dir  string
	name string

	turn chan struct{} // has an element while a chunk is computed, or the files are read

	mu     sync.Mutex
	loaded *transformer // nil: not yet
	closed bool
}

// errClosed is the error of a model after Close.
var errClosed = errors.New("embedding: the model is closed")

// Open returns the model of a directory in the layout of sentence-transformers: model.safetensors, config.json, tokenizer.json, modules.json and
// 1_Pooling/config.json. It reads what tells one model from another, and reports a model of another architecture. The caller must close it.
func Open(dir string) (*Model, error) {
	name, err := identify(dir)
	if err != nil {
		return nil, fmt.Errorf("embedding: %s: %w", dir, err)
	}
	return &Model{dir: dir, name: name, turn: make(chan struct{}, 1)}, nil
}

// Name implements [embedding.Model]: the name of the directory, and a hash of the files, with samples of the weights.
func (m *Model) Name() string { return m.name }

// Close releases the file and the memory of the model. Calls in progress end first.
func (m *Model) Close() error {
	m.turn <- struct{}{}
	defer func() { <-m.turn }()
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.loaded
	m.loaded, m.closed = nil, true
	if t == nil {
		return nil
	}
	return t.weights.close()
}

// Embed implements [embedding.Model]. A text longer than the model takes, 256 tokens for all-MiniLM-L6-v2, counts with its beginning. A single text,
// which is a query, uses up to four processors; several, which are an index, half of them.
func (m *Model) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	workers := max(1, runtime.GOMAXPROCS(0)/2)
	if len(texts) == 1 {
		workers = min(4, runtime.GOMAXPROCS(0))
	}
	all := make([][]float32, 0, len(texts))
	for len(all) < len(texts) {
		next, err := m.chunk(ctx, texts[len(all):], workers)
		if err != nil {
			return nil, err
		}
		all = append(all, next...)
	}
	return all, nil
}

// chunk embeds as many of the texts as a chunk holds, at least one.
func (m *Model) chunk(ctx context.Context, texts []string, workers int) ([][]float32, error) {
	select {
	case m.turn <- struct{}{}:
		defer func() { <-m.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	t, err := m.load()
	if err != nil {
		return nil, err
	}
	var tokens [][]int32
	for sum := 0; len(tokens) < len(texts) && sum < chunkTokens; sum += len(tokens[len(tokens)-1]) {
		tokens = append(tokens, t.tokenizer.encode(texts[len(tokens)], t.longest))
	}
	vectors, err := t.run(ctx, tokens, workers)
	if err != nil {
		return nil, err
	}
	for _, v := range vectors {
		if err := embedding.Normalise(v); err != nil {
			return nil, err
		}
	}
	return vectors, nil
}

// load returns the transformer, which it reads if that has not succeeded before. The caller has the turn.
func (m *Model) load() (*transformer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, errClosed
	}
	if m.loaded == nil {
		t, err := read(m.dir)
		if err != nil {
			return nil, fmt.Errorf("embedding: %s: %w", m.dir, err)
		}
		m.loaded = t
	}
	return m.loaded, nil
}

var _ embedding.Model = (*Model)(nil)
