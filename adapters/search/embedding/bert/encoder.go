package bert

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/viterin/vek/vek32"
)

// transformer is a BERT encoder. Its tensors have the names of the transformers library.
type transformer struct {
	config    *config
	tokenizer *tokenizer
	longest   int // text, in tokens
	weights   *weights

	words     int64     // where the vectors of words are in the file
	positions []float32 // with the vector of the one type that tokens have
	norm      norm32
	layers    []layer
	gelu      []float32
}

// layer is one layer: attention, and two linear maps.
type layer struct {
	attention, joined, inner, outer linear // attention is query, key and value, one below the other
	afterAttention, afterOuter      norm32
}

// norm32 are the weights of a layer normalisation.
type norm32 struct{ scale, shift []float32 }

// linear is a map x ↦ w·x + b. w has the rows of the matrix one after the other.
type linear struct{ w, b []float32 }

// newTransformer reads the tensors of a file of size bytes, which stays open.
func newTransformer(c *config, f io.ReaderAt, size int64) (*transformer, error) {
	w, err := readWeights(f, size)
	if err != nil {
		return nil, err
	}
	r := reader{weights: w}
	t := &transformer{config: c, weights: w, gelu: geluTable()}
	h := c.Hidden
	if t.words, err = w.place("embeddings.word_embeddings.weight", c.Words, h); err != nil {
		return nil, err
	}
	t.positions = r.read("embeddings.position_embeddings.weight", c.Positions, h)
	types := r.read("embeddings.token_type_embeddings.weight", 2, h)
	t.norm = r.norm("embeddings.LayerNorm", h)
	for i := 0; i < c.Layers && r.err == nil; i++ {
		name := fmt.Sprintf("encoder.layer.%d.", i)
		var l layer
		for _, part := range []string{"query", "key", "value"} {
			one := r.linear(name+"attention.self."+part, h, h)
			l.attention.w, l.attention.b = append(l.attention.w, one.w...), append(l.attention.b, one.b...)
		}
		l.joined, l.afterAttention = r.linear(name+"attention.output.dense", h, h), r.norm(name+"attention.output.LayerNorm", h)
		l.inner, l.outer = r.linear(name+"intermediate.dense", c.Inner, h), r.linear(name+"output.dense", h, c.Inner)
		l.afterOuter = r.norm(name+"output.LayerNorm", h)
		t.layers = append(t.layers, l)
	}
	if r.err != nil {
		return nil, r.err
	}
	for i := range c.Positions {
		row := t.positions[i*h:][:h]
		for j := range row {
			row[j] += types[j]
		}
	}
	return t, nil
}

// reader reads tensors until one fails.
type reader struct {
	weights *weights
	err     error
}

func (r *reader) read(name string, shape ...int) []float32 {
	if r.err != nil {
		return nil
	}
	at, err := r.weights.place(name, shape...)
	if err != nil {
		r.err = err
		return nil
	}
	count := 1
	for _, n := range shape {
		count *= n
	}
	all := make([]float32, count)
	r.err = floats(r.weights.f, at, all)
	return all
}

func (r *reader) linear(name string, out, in int) linear {
	return linear{r.read(name+".weight", out, in), r.read(name+".bias", out)}
}

func (r *reader) norm(name string, size int) norm32 {
	return norm32{r.read(name+".weight", size), r.read(name+".bias", size)}
}

// floats reads numbers from a place in a file.
func floats(f io.ReaderAt, at int64, into []float32) error {
	var buf [16 << 10]byte
	for len(into) > 0 {
		n := min(len(into), len(buf)/4)
		if _, err := f.ReadAt(buf[:4*n], at); err != nil {
			return err
		}
		for i := range n {
			into[i] = math.Float32frombits(binary.LittleEndian.Uint32(buf[4*i:]))
		}
		into, at = into[n:], at+int64(4*n)
	}
	return nil
}

// run returns a vector for each text of tokens. The texts are computed together, as rows of one matrix, without padding.
func (t *transformer) run(ctx context.Context, texts [][]int32, workers int) ([][]float32, error) {
	h, rows := t.config.Hidden, 0
	for _, text := range texts {
		rows += len(text)
	}
	x := make([]float32, rows*h)
	at := 0
	for _, text := range texts {
		for i, id := range text {
			row := x[at*h:][:h]
			if err := floats(t.weights.f, t.words+int64(id)*int64(h)*4, row); err != nil {
				return nil, fmt.Errorf("embedding: the vector of a word cannot be read: %w", err)
			}
			vek32.Add_Inplace(row, t.positions[i*h:][:h])
			at++
		}
	}
	t.norm.apply(x, t.config.Epsilon)
	p := pass{t: t, rows: rows, workers: workers, qkv: make([]float32, rows*3*h), joined: make([]float32, rows*h), inner: make([]float32, rows*t.config.Inner), out: make([]float32, rows*h)}
	for i := range t.layers {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		p.layer(&t.layers[i], x, texts)
	}
	return t.pool(x, texts), nil
}

// pool returns the vector of each text: the mean of its tokens' vectors, or the first.
func (t *transformer) pool(x []float32, texts [][]int32) [][]float32 {
	h := t.config.Hidden
	all := make([][]float32, 0, len(texts))
	for _, text := range texts {
		v := append([]float32(nil), x[:h]...)
		if !t.config.first {
			for i := 1; i < len(text); i++ {
				vek32.Add_Inplace(v, x[i*h:][:h])
			}
			vek32.MulNumber_Inplace(v, 1/float32(len(text)))
		}
		all, x = append(all, v), x[len(text)*h:]
	}
	return all
}

// pass is the memory of one run.
type pass struct {
	t                       *transformer
	rows, workers           int
	qkv, joined, inner, out []float32
}

// layer applies a layer to x, a row for each token.
func (p *pass) layer(l *layer, x []float32, texts [][]int32) {
	p.apply(&l.attention, x, p.qkv, nil)
	heads := p.t.config.Heads
	at := 0
	for _, text := range texts {
		n := len(text)
		parallel(p.workers, heads, func(from, to int) {
			s := newScratch(n, p.t.config.Hidden/heads)
			for head := from; head < to; head++ {
				p.attend(s, at, n, head)
			}
		})
		at += n
	}
	p.apply(&l.joined, p.joined, p.out, nil)
	vek32.Add_Inplace(x, p.out)
	l.afterAttention.apply(x, p.t.config.Epsilon)
	p.apply(&l.inner, x, p.inner, p.t.gelu)
	p.apply(&l.outer, p.inner, p.out, nil)
	vek32.Add_Inplace(x, p.out)
	l.afterOuter.apply(x, p.t.config.Epsilon)
}

// scratch is the memory of one head of attention.
type scratch struct{ keys, values, likely []float32 }

func newScratch(n, width int) *scratch {
	return &scratch{make([]float32, n*width), make([]float32, n*width), make([]float32, n)}
}

// attend computes one head of a text of n tokens, whose rows begin at at: softmax(q·k/√d)·v.
func (p *pass) attend(s *scratch, at, n, head int) {
	h := p.t.config.Hidden
	width := h / p.t.config.Heads
	scale := float32(1 / math.Sqrt(float64(width)))
	for i := range n {
		row := p.qkv[(at+i)*3*h+head*width:]
		copy(s.keys[i*width:][:width], row[h:])
		for j, v := range row[2*h:][:width] {
			s.values[j*n+i] = v
		}
	}
	for i := range n {
		query := p.qkv[(at+i)*3*h+head*width:][:width]
		for j := range n {
			s.likely[j] = vek32.Dot(query, s.keys[j*width:][:width]) * scale
		}
		softmax(s.likely)
		out := p.joined[(at+i)*h+head*width:][:width]
		for j := range out {
			out[j] = vek32.Dot(s.likely, s.values[j*n:][:n])
		}
	}
}
