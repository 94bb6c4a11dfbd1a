package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"dragoman/adapters/search/embedding/bert"
	benchsearch "dragoman/bench/search"
	"dragoman/internal/app/logging"
	"dragoman/internal/config/value"
	"dragoman/proxy/wire"
)

const benchLong = `Load an MCP server and measure it: over modern and legacy HTTP, HTTP+SSE, the REST
envelope, or, as a command, over stdio. The first of these that it offers is used
unless --face names one. Every answer is checked: its id, that it is a result, and
that its content equals the first answer's, unless --varies is given.

The call is --tool, --method or a --mix. Without them it is a read-only tool that
needs no arguments, ping, or tools/list, and the report says which. In arguments {n}
stands for ten digits that differ in each call. --size is for Dragoman's reference
servers.

Without --rate each connection makes its next call when it has its answer (closed
loop). With --rate so many calls are due a second, however fast the server is (open
loop), and latencies are counted from when a call was due: a server that stalls
delays all calls that are due meanwhile. --queue bounds the waiting calls. Calls
that were never sent are counted and reported.

--fail is a condition such as 'p99<20ms', 'errors<0.1%' or 'rps>1000', on p50, p75,
p90, p95, p99, p99.9, p99.99, mean, max, rps, errors, unsent, cpu, rss, allocs or
bytes. Without a condition on errors, none is allowed.

CPU and memory are those of the COMMAND, of --pid, or of the process that listens on
the URL's port (--pid-of-port), on Linux. An interrupt ends the run and reports what
was measured.

Exit codes: 0 success, 1 wrong answers, errors or a threshold missed, 2 wrong
usage, 3 no server answers, or none that speaks MCP, 130 a second interrupt.`

const benchExample = `  dragoman bench http://127.0.0.1:8080/mcp
  dragoman bench --connections 64 --duration 30s --html report.html http://127.0.0.1:8080/mcp
  dragoman bench --tool echo --arguments '{"message":"{n}"}' -- dragoman demo
  dragoman bench --rate 500 --fail 'p99<20ms' --fail 'errors<0.1%' http://127.0.0.1:8080/mcp
  dragoman bench --sessions 1,100,1000 --pid-of-port --face legacy-http http://127.0.0.1:8080/mcp
  dragoman bench --mix calls.json --json=now.json --compare before.json http://127.0.0.1:8080/mcp`

// benchFlags holds the values of the flags: those that are options as they stand, and those that are parsed.
type benchFlags struct {
	BenchOptions
	tool, arguments, method, params, mix string
	fail, header                         []string
	caFile                               string
}

func newBench(p *program) *cobra.Command {
	c := &cobra.Command{
		Use:     "bench [flags] URL | -- COMMAND [ARG...]",
		Short:   "Load an MCP server and measure it",
		Long:    benchLong,
		Example: benchExample,
	}
	f := &benchFlags{}
	f.add(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		opt, err := p.benchOptions(c, f, args)
		if err != nil {
			return err
		}
		return p.run.Bench(c.Context(), opt, p.std)
	}
	c.AddCommand(newBenchSearch(p))
	return c
}

const benchSearchLong = `Measure how well and how fast tools are found, over sets of tools and of queries that
tell which tools answer them. Each directory in DIR is a set: tools.jsonl holds
definitions of MCP tools, one a line, each with the member "server" if there are
several, and queries.jsonl lines such as {"query":"...","tools":["NAME"]}, NAME or
SERVER/NAME. MetaTool (plugin_des.json, all_clean_data.csv) and Seal-Tools
(tool.jsonl, test_out_domain.jsonl) are read as published; of MetaTool's queries that
half which is kept for reporting.

Each set is measured as it is, and with the numbers of tools of --sizes: fewer, or
more by copies that have most of their words from other tools and answer nothing.

With --model searching by meaning, and by both, is measured as well. Times of queries
are then without those of the model; of sets with more than 5,000 tools the vectors of
further ones are made from those by adding noise.

Exit codes: 0 success, 1 a set that cannot be read, 2 wrong usage, or no set in DIR,
130 a second interrupt.`

const benchSearchExample = `  dragoman bench search bench/search/testdata
  dragoman bench search --sizes 200,4000,100000 --json=search.json ~/search-data`

// maxSearchTools bounds --sizes: memory grows by about a kilobyte a tool.
const maxSearchTools = 1_000_000

func newBenchSearch(p *program) *cobra.Command {
	c := &cobra.Command{
		Use:     "search [flags] DIR",
		Short:   "Measure how well and how fast tools are found",
		Long:    benchSearchLong,
		Example: benchSearchExample,
	}
	opt := &benchsearch.Options{Ways: benchsearch.Ways()}
	var file, model string
	c.Flags().StringVar(&model, "model", "", "directory of a sentence transformer, `DIR`; without one searching by meaning is not measured")
	c.Flags().IntSliceVar(&opt.Sizes, "sizes", []int{200, 4000, 100_000}, "measure also with so many tools, `N,...`")
	jsonReport(c.Flags(), &file)
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := misplacedFile(file, args); err != nil {
			return err
		}
		if len(args) != 1 {
			return usagef("bench search: one DIR with sets is needed, and there are %d; fix: write `dragoman bench search DIR`", len(args))
		}
		for _, n := range opt.Sizes {
			if n < 1 || n > maxSearchTools {
				return usagef("--sizes: %d is out of bounds; fix: write 1 to %d", n, maxSearchTools)
			}
		}
		opt.Dir = args[0]
		if model != "" {
			m, err := bert.Open(model)
			if err != nil {
				return failed(fmt.Errorf("--model: %w", err))
			}
			defer func() { _ = m.Close() }()
			opt.Ways = benchsearch.Meant(c.Context(), m)
		}
		return p.benchSearch(c.Context(), opt, file)
	}
	return c
}

// benchSearch measures, and writes what was measured, also if it was interrupted.
func (p *program) benchSearch(ctx context.Context, opt *benchsearch.Options, file string) error {
	if logging.Terminal(p.std.Err) {
		opt.Note = func(set string, tools int, way string) {
			_, _ = fmt.Fprintf(p.std.Err, "%s, %d tools, %s\n", wire.Shown(set), tools, way)
		}
	}
	r, err := benchsearch.Run(ctx, opt)
	switch {
	case errors.Is(err, benchsearch.ErrNoData):
		return usagef("bench search: %w", err)
	case err != nil && (ctx.Err() == nil || len(r.Rows) == 0):
		return failed(fmt.Errorf("bench search: %w", err))
	}
	people, err := writeReports(p.std, reportFile{file, r.JSON})
	if err != nil {
		return err
	}
	return failed(r.Terminal(people))
}

func (f *benchFlags) add(c *cobra.Command) {
	flags := c.Flags()
	faces := faceNames()
	flags.StringVar(&f.Face, "face", "", "reach it over this `FACE`: "+value.OneOf(faces)+" (default: the first that it has)")
	flags.StringVar(&f.Revision, "revision", "", "ask for this `REVISION` of the protocol (default: the newest of the face)")
	flags.StringVar(&f.tool, "tool", "", "call the tool `NAME`")
	flags.StringVar(&f.arguments, "arguments", "", "arguments of the tool: a `JSON` object, or @FILE with one")
	flags.StringVar(&f.method, "method", "", "call this `METHOD`, such as tools/list or ping")
	flags.StringVar(&f.params, "params", "", "params of the method: a `JSON` object, or @FILE with one")
	flags.StringVar(&f.mix, "mix", "", "make the calls of the `FILE`: a JSON array of objects with tool and arguments or method and params, weight, varies, name")
	flags.BoolVar(&f.Varies, "varies", false, "answers may differ: check only id, result and form")
	flags.IntSliceVar(&f.Sizes, "size", nil, "length of requests to a reference server in `BYTES`, up to 64 MiB; several are several runs (300,10240)")
	flags.IntVar(&f.Answer, "answer-size", 0, "length of its answers in `BYTES` (default: that of the request)")
	flags.Float64Var(&f.Streams, "stream-share", 0, "`SHARE` of its answers, 0 to 1, that are asked for as event streams")
	flags.IntVar(&f.Connections, "connections", 16, "connections, each with a session of its own where there are any, `N`")
	flags.IntVar(&f.Processes, "processes", 1, "start the COMMAND `N` times, and divide the connections among them")
	flags.Float64Var(&f.Rate, "rate", 0, "open loop: `N` calls are due a second")
	flags.IntVar(&f.Queue, "queue", 10_000, "with --rate: `N` calls may wait for a connection")
	flags.DurationVar(&f.Warmup, "warmup", time.Second, "call for this `DURATION` before measuring")
	flags.DurationVar(&f.Duration, "duration", 10*time.Second, "measure for this `DURATION`")
	flags.Uint64Var(&f.Requests, "requests", 0, "measure `N` calls instead")
	flags.IntVar(&f.Rounds, "rounds", 5, "divide the duration into `N` parts, which give the spread")
	flags.DurationVar(&f.Timeout, "timeout", 20*time.Second, "how long an answer may take, `DURATION`")
	flags.IntSliceVar(&f.Sessions, "sessions", nil, "open so many idle sessions before, `N,...`, and read the memory at each number; they stay open")
	flags.IntVar(&f.PID, "pid", 0, "watch the process `PID`")
	flags.BoolVar(&f.PIDOfPort, "pid-of-port", false, "watch the process that listens on the port of the URL, on this machine")
	flags.StringVar(&f.Metrics, "metrics", "", "`URL` with the metrics of a Go program: its allocations (Prometheus, /debug/vars, /debug/pprof/heap?debug=1)")
	flags.StringArrayVar(&f.fail, "fail", nil, "exit with 1 unless `'METRIC<VALUE'` holds, or METRIC>VALUE; repeatable")
	flags.StringArrayVar(&f.header, "header", nil, "`'NAME: VALUE'` of every request, such as credentials; VALUE may be env:NAME, file:/path or @FILE; --header @FILE reads such lines; repeatable")
	flags.StringVar(&f.caFile, "ca-file", "", "PEM `FILE` of the roots to trust instead of the system's")
	jsonReport(flags, &f.JSON)
	flags.StringVar(&f.HTML, "html", "", "write the report as a page with charts into `FILE`")
	flags.StringVar(&f.Compare, "compare", "", "compare with the report in `FILE` that --json has written")
	_ = c.RegisterFlagCompletionFunc("face", cobra.FixedCompletions(faces, cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("method", cobra.FixedCompletions([]string{"ping", "tools/list", "prompts/list", "resources/list", "server/discover"}, cobra.ShellCompDirectiveNoFileComp))
	_ = c.MarkFlagFilename("mix", "json")
	_ = c.MarkFlagFilename("compare", "json")
	_ = c.MarkFlagFilename("html", "html")
}
