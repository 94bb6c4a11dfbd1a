package search

import (
	"context"
	"math"
	"runtime"
	"slices"
	"time"

	"dragoman/adapters/search/lexical"
)

// Searcher returns at most limit tools for a query, the best first.
type Searcher func(query string, limit int) []lexical.Hit

// Way is a way of searching.
type Way struct {
	Name  string
	Build func(tools []lexical.Document) (Searcher, error) // nil: it is not measured
	// Failed returns why a query could not be searched for; nil: none failed, or none can.
	Failed func() error
}

// Lexical is the search by words.
func Lexical() Way {
	return Way{Name: "lexical", Build: func(tools []lexical.Document) (Searcher, error) {
		x := lexical.New()
		x.Put(tools...)
		return func(query string, limit int) []lexical.Hit { return x.Search(query, limit, nil) }, nil
	}}
}

// Ways are the ways of searching without a model. Those with one are named, so that a report says that they are not measured.
func Ways() []Way { return []Way{Lexical(), {Name: "semantic"}, {Name: "fused"}} }

// Row is what was measured of one way over one set.
type Row struct {
	Set      string  `json:"set"`
	Tools    int     `json:"tools"`
	Own      bool    `json:"own"` // as many tools as the set has
	Queries  int     `json:"queries"`
	Way      string  `json:"way"`
	Measured bool    `json:"measured"`
	Hit1     float64 `json:"hit_at_1"`     // share of queries whose first result answers them
	Recall5  float64 `json:"recall_at_5"`  // share of the tools that answer a query among the first five, on average
	Recall10 float64 `json:"recall_at_10"` // the same, of ten
	NDCG10   float64 `json:"ndcg_at_10"`
	P50      float64 `json:"p50_us"` // of the least time of each query
	P99      float64 `json:"p99_us"`
	Build    float64 `json:"build_ms"`   // of the whole index
	Memory   float64 `json:"memory_mib"` // that the index takes
}

// results is how many results are judged.
const results = 10

// maxQueries bounds the queries at other sizes than a set's own; they are taken at equal distances.
const maxQueries = 1000

// measure measures one way over one set.
func measure(ctx context.Context, set *Set, way Way, own bool) (Row, error) {
	row := Row{Set: set.Name, Tools: len(set.Tools), Own: own, Queries: len(set.Queries), Way: way.Name}
	if way.Build == nil {
		return row, nil
	}
	before := heap()
	begun := time.Now()
	search, err := way.Build(set.Tools)
	if err != nil {
		return row, err
	}
	row.Measured, row.Build = true, ms(time.Since(begun))
	row.Memory = max(0, float64(heap())-float64(before)) / (1 << 20)
	took := make([]time.Duration, 0, len(set.Queries))
	for _, q := range set.Queries {
		if err := ctx.Err(); err != nil {
			return row, err
		}
		hits, least := timed(search, q.Text)
		took = append(took, least)
		row.judge(q.wanted(set), hits)
	}
	if way.Failed != nil {
		if err := way.Failed(); err != nil {
			return row, err
		}
	}
	if n := float64(len(set.Queries)); n > 0 {
		row.Hit1, row.Recall5, row.Recall10, row.NDCG10 = row.Hit1/n, row.Recall5/n, row.Recall10/n, row.NDCG10/n
		slices.Sort(took)
		row.P50, row.P99 = 1000*ms(quantile(took, 0.5)), 1000*ms(quantile(took, 0.99))
	}
	runtime.KeepAlive(search)
	return row, nil
}

// quick is below what the time of a query is measured more than once, so that what else the machine does counts less.
const (
	quick = 20 * time.Millisecond
	tries = 3
)

// timed returns what a query finds, and the least time that it took.
func timed(search Searcher, query string) (hits []lexical.Hit, least time.Duration) {
	for i := range tries {
		begun := time.Now()
		hits = search(query, results)
		if took := time.Since(begun); i == 0 || took < least {
			least = took
		}
		if i > 0 && least > quick { // the first has made the vector of the query, if one is needed
			break
		}
	}
	return hits, least
}

// wanted returns the tools that answer a query.
func (q *Query) wanted(set *Set) map[[2]string]bool {
	all := map[[2]string]bool{}
	for _, at := range q.Tools {
		all[[2]string{set.Tools[at].Server, set.Tools[at].Name}] = true
	}
	return all
}

// judge adds what results of a query are worth.
func (r *Row) judge(wanted map[[2]string]bool, hits []lexical.Hit) {
	var found, five, gain, ideal float64
	for i, hit := range hits[:min(len(hits), results)] {
		if wanted[[2]string{hit.Server, hit.Name}] {
			found++
			gain += 1 / math.Log2(float64(i)+2)
			if i == 0 {
				r.Hit1++
			}
			if i < 5 {
				five++
			}
		}
	}
	for i := range min(len(wanted), results) {
		ideal += 1 / math.Log2(float64(i)+2)
	}
	r.Recall5 += five / float64(len(wanted))
	r.Recall10 += found / float64(len(wanted))
	r.NDCG10 += gain / ideal
}

// quantile returns the least of sorted durations that a share of them does not exceed.
func quantile(sorted []time.Duration, share float64) time.Duration {
	return sorted[max(int(math.Ceil(share*float64(len(sorted))))-1, 0)]
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// heap returns the bytes in use. What is pooled is collected by the second collection.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// thinned returns a set with at most so many of its queries.
func (s Set) thinned(most int) Set {
	if len(s.Queries) > most {
		all := make([]Query, most)
		for i := range all {
			all[i] = s.Queries[i*len(s.Queries)/most]
		}
		s.Queries = all
	}
	return s
}
