package cli

import (
	"time"

	"github.com/spf13/cobra"

	"dragoman/bench/load/drive"
	suitepeer "dragoman/conformance/peer"
	"dragoman/internal/config/value"
)

const benchLong = `Load an MCP server and measure it: over modern and legacy HTTP, HTTP+SSE, the REST
envelope, or, as a command, over stdio. How it is reached is found out, unless --face
says so. Every answer is judged: its id, that it is a result, and that it says what
the first one said (--varies: or not).

What is called is --tool, --method or a --mix; else a tool that only reads and needs
no arguments, ping, or tools/list, and the report says which. In arguments {n} stands
for ten digits that are others in each call. --size is for Dragoman's reference servers.

Without --rate each connection calls as soon as it is answered (closed loop). With it
so many calls a second are due, whatever the server does (open loop), and latencies
are counted from when a call was due: a server that stalls is waited for by all of
them. What waits is bounded by --queue; what was never sent is counted, and told.

--fail is what has to hold, such as 'p99<20ms', 'errors<0.1%', 'rps>1000', for p50,
p75, p90, p95, p99, p99.9, p99.99, mean, max, rps, errors, unsent, cpu, rss, allocs
and bytes. Without one on errors none is allowed.

CPU and memory are those of the COMMAND, of --pid, or of who listens at the URL's port
(--pid-of-port), on Linux. An interrupt ends the run and reports what was measured.

Exit codes: 0 success, 1 wrong answers, errors or a threshold missed, 2 wrong
usage, 3 no server answers, or none that speaks MCP, 130 a second interrupt.`

const benchExample = `  dragoman bench http://127.0.0.1:8080/mcp
  dragoman bench --connections 64 --duration 30s --html report.html http://127.0.0.1:8080/mcp
  dragoman bench --tool echo --arguments '{"message":"{n}"}' -- dragoman demo
  dragoman bench --rate 500 --fail 'p99<20ms' --fail 'errors<0.1%' http://127.0.0.1:8080/mcp
  dragoman bench --sessions 1,100,1000 --pid-of-port --face legacy-http http://127.0.0.1:8080/mcp
  dragoman bench --mix calls.json --json now.json --compare before.json http://127.0.0.1:8080/mcp`

// benchFlags holds the values of the flags.
type benchFlags struct {
	face, revision          string
	tool, arguments, method string
	params, mix             string
	varies                  bool
	sizes                   []int
	answer                  int
	streams                 float64
	connections, processes  int
	rate                    float64
	queue                   int
	warmup, duration        time.Duration
	requests                uint64
	rounds                  int
	timeout                 time.Duration
	sessions                []int
	pid                     int
	pidOfPort               bool
	metrics                 string
	fail                    []string
	header                  []string
	caFile                  string
	json, html, compare     string
}

func newBench(p *program) *cobra.Command {
	c := &cobra.Command{
		Use:     "bench [flags] URL | -- COMMAND [ARG...]",
		Short:   "Load an MCP server and measure it",
		Long:    benchLong,
		Example: benchExample,
		Args:    cobra.ArbitraryArgs,

		DisableFlagsInUseLine: true,
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
	return c
}

func (f *benchFlags) add(c *cobra.Command) {
	flags := c.Flags()
	faces := faceNames()
	flags.StringVar(&f.face, "face", "", "reach it over this `FACE`: "+value.OneOf(faces)+" (default: the first that it has)")
	flags.StringVar(&f.revision, "revision", "", "ask for this `REVISION` of the protocol (default: the newest of the face)")
	flags.StringVar(&f.tool, "tool", "", "call the tool `NAME`")
	flags.StringVar(&f.arguments, "arguments", "", "of the tool: a `JSON` object, or @FILE with one")
	flags.StringVar(&f.method, "method", "", "call this `METHOD`, such as tools/list or ping")
	flags.StringVar(&f.params, "params", "", "of the method: a `JSON` object, or @FILE with one")
	flags.StringVar(&f.mix, "mix", "", "call what the `FILE` says: a JSON array of objects with tool and arguments or method and params, weight, varies, name")
	flags.BoolVar(&f.varies, "varies", false, "answers may differ: only look at id, result and form")
	flags.IntSliceVar(&f.sizes, "size", nil, "length of requests to a reference server in `BYTES`, up to 64 MiB; several are several runs (300,10240)")
	flags.IntVar(&f.answer, "answer-size", 0, "length of its answers in `BYTES` (default: that of the request)")
	flags.Float64Var(&f.streams, "stream-share", 0, "`SHARE` of its answers, 0 to 1, that are asked for as event streams")
	flags.IntVar(&f.connections, "connections", 16, "connections, each with a session of its own where there are any, `N`")
	flags.IntVar(&f.processes, "processes", 1, "start the COMMAND `N` times; connections are shared out")
	flags.Float64Var(&f.rate, "rate", 0, "open loop: so many calls are due a second, `N`")
	flags.IntVar(&f.queue, "queue", 10_000, "of --rate: calls that are due and may wait for a connection, `N`")
	flags.DurationVar(&f.warmup, "warmup", time.Second, "call for this `DURATION` before measuring")
	flags.DurationVar(&f.duration, "duration", 10*time.Second, "measure for this `DURATION`")
	flags.Uint64Var(&f.requests, "requests", 0, "measure so many calls instead, `N`")
	flags.IntVar(&f.rounds, "rounds", 5, "parts of the duration, which give the spread, `N`")
	flags.DurationVar(&f.timeout, "timeout", 20*time.Second, "how long an answer may take, `DURATION`")
	flags.IntSliceVar(&f.sessions, "sessions", nil, "open so many idle sessions before, `N,...`, and read the memory at each number; they stay open")
	flags.IntVar(&f.pid, "pid", 0, "watch the process `PID`")
	flags.BoolVar(&f.pidOfPort, "pid-of-port", false, "watch the process that listens on the port of the URL, on this machine")
	flags.StringVar(&f.metrics, "metrics", "", "`URL` with the metrics of a Go program: its allocations (Prometheus, /debug/vars, /debug/pprof/heap?debug=1)")
	flags.StringArrayVar(&f.fail, "fail", nil, "exit with 1 unless `'METRIC<VALUE'` holds, or METRIC>VALUE; repeatable")
	flags.StringArrayVar(&f.header, "header", nil, "`'NAME: VALUE'` of every request, such as credentials; VALUE may be @FILE, file:/PATH or env:NAME; repeatable")
	flags.StringVar(&f.caFile, "ca-file", "", "PEM `FILE` of the roots to trust instead of the system's")
	flags.StringVar(&f.json, "json", "", "write the report as JSON into `FILE`, - is standard output")
	flags.StringVar(&f.html, "html", "", "as a page with pictures into `FILE`")
	flags.StringVar(&f.compare, "compare", "", "compare with the report in `FILE` that --json has written")
	_ = c.RegisterFlagCompletionFunc("face", cobra.FixedCompletions(faces, cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("method", cobra.FixedCompletions([]string{"ping", "tools/list", "prompts/list", "resources/list", "server/discover"}, cobra.ShellCompDirectiveNoFileComp))
	_ = c.MarkFlagFilename("mix", "json")
	_ = c.MarkFlagFilename("compare", "json")
	_ = c.MarkFlagFilename("html", "html")
}

// faceOf converts a face to the generator's type; the names are the same.
func faceOf(f suitepeer.Face) drive.Face { return drive.Face(f) }
