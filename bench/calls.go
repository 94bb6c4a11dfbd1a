package main

import "context"

// calls measures every cell at every size.
func (b *suite) calls(ctx context.Context, t *targets) error {
	for _, size := range b.sizes {
		rows := b.report.addRows(secCalls, b.cells, size, b.connections)
		for _, r := range rows {
			r.SSE = b.sse
		}
		if b.interleave(ctx, t, rows); ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// streams measures answers that are event streams, in the cells whose servers can send them.
func (b *suite) streams(ctx context.Context, t *targets) error {
	for _, size := range sseSizes() {
		rows := b.report.addRows(secSSE, cellsOf(b.cells, baseline, cellNginx, cellModern, cellLegacy, cellModernLegacy, cellLegacyModern), size, b.connections)
		for _, r := range rows {
			r.SSE = true
		}
		if b.interleave(ctx, t, rows); ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// latency measures the latency that a hop adds without any other load.
func (b *suite) latency(ctx context.Context, t *targets) error {
	b.interleave(ctx, t, b.report.addRows(secLatency, cellsOf(allCells(), cellDirect, baseline, cellNginx, cellModern, cellLegacy), smallSize, 1))
	return ctx.Err()
}
