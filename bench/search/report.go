package search

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"dragoman/proxy/wire"
)

// Options say what is measured.
type Options struct {
	Dir   string
	Sizes []int // numbers of tools, beside those that the sets have
	Ways  []Way
	Note  func(set string, tools int, way string) // is called before each measurement; may be nil
}

// Report is what was measured.
type Report struct {
	Rows []Row `json:"rows"`
}

// Run measures all sets below a directory. An interrupted one returns what was measured, and the context's error.
func Run(ctx context.Context, opt *Options) (*Report, error) {
	sets, err := Read(opt.Dir)
	if err != nil {
		return nil, err
	}
	r := &Report{}
	for i := range sets {
		if err := r.set(ctx, &sets[i], opt); err != nil {
			return r, err
		}
	}
	return r, nil
}

// set measures one set at all sizes.
func (r *Report) set(ctx context.Context, set *Set, opt *Options) error {
	for i, size := range append([]int{len(set.Tools)}, opt.Sizes...) {
		own := size == len(set.Tools)
		if own && i > 0 {
			continue
		}
		sized := *set
		if !own {
			sized = set.Resized(size).thinned(maxQueries)
		}
		for _, way := range opt.Ways {
			if opt.Note != nil {
				opt.Note(set.Name, size, way.Name)
			}
			row, err := measure(ctx, &sized, way, own)
			if err != nil {
				return fmt.Errorf("%s, %d tools, %s: %w", wire.Shown(set.Name), size, way.Name, err)
			}
			r.Rows = append(r.Rows, row)
		}
	}
	return nil
}

// JSON writes the report as JSON.
func (r *Report) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// Terminal writes the report as a table.
func (r *Report) Terminal(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "set\ttools\tqueries\tway\thit@1\tR@5\tR@10\tnDCG@10\tp50 µs\tp99 µs\tbuild ms\tMiB\t")
	for i := range r.Rows {
		row := &r.Rows[i]
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\t", wire.Shown(row.Set), row.Tools, row.Queries, row.Way)
		if row.Measured {
			fmt.Fprintf(t, "%.3f\t%.3f\t%.3f\t%.3f\t%.0f\t%.0f\t%.0f\t%.1f\t\n",
				row.Hit1, row.Recall5, row.Recall10, row.NDCG10, row.P50, row.P99, row.Build, row.Memory)
		} else {
			fmt.Fprintln(t, "not measured\t\t\t\t\t\t\t\t")
		}
	}
	return t.Flush()
}
