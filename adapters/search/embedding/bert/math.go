package bert

import (
	"math"
	"sync"

	"github.com/viterin/vek/vek32"
)

// parallel calls f for parts of 0…n at the same time, at most workers of them, and returns when all have ended.
func parallel(workers, n int, f func(from, to int)) {
	workers = min(workers, n)
	if workers <= 1 {
		f(0, n)
		return
	}
	var all sync.WaitGroup
	for i := 1; i < workers; i++ {
		all.Go(func() { f(n*i/workers, n*(i+1)/workers) })
	}
	f(0, n/workers)
	all.Wait()
}

// cached is how many numbers of the rows of x stay in the fastest cache, while the rows of a matrix pass by.
const cached = 8192

// apply computes out = w·x + b for each row of x, and then the activation. Workers share the rows of w.
func (p *pass) apply(l *linear, x, out, activation []float32) {
	outs := len(l.b)
	ins := len(l.w) / outs
	block := max(4, cached/ins)
	parallel(p.workers, outs, func(from, to int) {
		for first := 0; first < p.rows; first += block {
			last := min(p.rows, first+block)
			for o := from; o < to; o++ {
				w, b := l.w[o*ins:][:ins], l.b[o]
				for r := first; r < last; r++ {
					out[r*outs+o] = vek32.Dot(x[r*ins:][:ins], w) + b
				}
			}
		}
		if activation == nil {
			return
		}
		for r := range p.rows {
			row := out[r*outs:]
			for o := from; o < to; o++ {
				row[o] = lookUp(activation, row[o])
			}
		}
	})
}

// apply normalises each row of x.
func (n *norm32) apply(x []float32, epsilon float64) {
	size := len(n.scale)
	for ; len(x) >= size; x = x[size:] {
		row := x[:size]
		var sum, squares float64
		for _, v := range row {
			sum += float64(v)
		}
		mean := sum / float64(size)
		for _, v := range row {
			d := float64(v) - mean
			squares += d * d
		}
		by := float32(1 / math.Sqrt(squares/float64(size)+epsilon))
		for i, v := range row {
			row[i] = (v-float32(mean))*by*n.scale[i] + n.shift[i]
		}
	}
}

// softmax turns numbers into parts of one.
func softmax(x []float32) {
	most := vek32.Max(x)
	var sum float32
	for i, v := range x {
		e := float32(math.Exp(float64(v - most)))
		x[i], sum = e, sum+e
	}
	vek32.MulNumber_Inplace(x, 1/sum)
}

// The table of the activation covers -geluMost to geluMost. Outside, it is 0 or its argument within the precision of the numbers; between two
// entries, which are 1/geluSteps apart, the line differs by less than 2e-7.
const (
	geluMost  = 8
	geluSteps = 1024
)

// geluTable returns x·Φ(x), the activation, at the steps. math.Erf for each number would take as long as a third of the matrices.
func geluTable() []float32 {
	table := make([]float32, 2*geluMost*geluSteps+2)
	for i := range table {
		x := float64(i)/geluSteps - geluMost
		table[i] = float32(x * 0.5 * (1 + math.Erf(x/math.Sqrt2)))
	}
	return table
}

func lookUp(table []float32, x float32) float32 {
	switch {
	case x > -geluMost && x < geluMost:
		at := (x + geluMost) * geluSteps
		i := int(at)
		return table[i] + (table[i+1]-table[i])*(at-float32(i))
	case x <= -geluMost:
		return 0
	default: // also what is not a number
		return x
	}
}
