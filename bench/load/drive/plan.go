// Package drive is the load generator of `dragoman bench`. It calls an MCP server over any transport, at the pace of the server (a closed
// loop) or at a constant rate (an open loop), judges every answer and measures its latency.
//
// Requests are prepared bytes of which only numbers change, and an answer that is identical to an earlier correct one is not decoded: the
// generator uses little of a machine that it shares with the server under test. It knows nothing of processes, files or reports.
package drive

import (
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Face is a transport in an era.
type Face string

// The faces, by the values of the flag --face.
const (
	ModernHTTP  Face = "modern-http"
	LegacyHTTP  Face = "legacy-http"
	SSE         Face = "sse"
	ModernStdio Face = "modern-stdio"
	LegacyStdio Face = "legacy-stdio"
	REST        Face = "rest"
)

// Plain is a face without a protocol besides HTTP: Params is posted to the plan's path as it is, and any JSON value with status 200 answers
// it. With a Text the answer must be that text as a JSON string, which is how bridges from MCP to OpenAPI answer for a tool with one text, or the
// JSON that is written there without spaces.
const Plain Face = "plain"

// speaksMCP reports whether messages are those of MCP.
func (f Face) speaksMCP() bool { return f != REST && f != Plain }

// modern reports whether every request carries its revision.
func (f Face) modern() bool { return f == ModernHTTP || f == ModernStdio }

// Stdio reports whether the server is a child process.
func (f Face) Stdio() bool { return f == ModernStdio || f == LegacyStdio }

// Sessions reports whether clients open sessions that outlive a connection, or hold one.
func (f Face) Sessions() bool { return f == LegacyHTTP || f == SSE }

// Bounds of a plan.
const (
	MaxConnections = 4096
	MaxProcesses   = 64
	MaxQueue       = 1 << 20
	MaxRate        = 1_000_000 // calls a second
	MaxRounds      = 100
	MaxCalls       = 64
	MaxMessage     = 64 << 20 // bytes of a request or an answer
	MaxDuration    = 24 * time.Hour
	// maxRequests bounds the memory of all connections' requests.
	maxRequests = 1 << 30
	maxWeights  = 10_000
)

// Plan describes a load. The caller has checked that the server has the face.
type Plan struct {
	Face     Face
	Revision string      // of the protocol; empty over REST
	Addr     string      // host:port; empty over stdio
	Host     string      // the Host field
	Path     string      // with its query
	Paths    []string    // instead of Path, one per connection in turn; nil: all use Path
	TLS      *tls.Config // nil: plain HTTP
	Header   string      // header lines of every request, each with CRLF
	Command  []string    // for a stdio face
	Env      []string    // of the command, KEY=value

	Calls       []Call
	Connections int // the maximum of calls in flight
	Processes   int // for a stdio face
	// Rate is the number of calls due per second; 0 is a closed loop, in which each connection calls again once it is answered.
	Rate     float64
	Queue    int // open loop: how many due calls may wait for a connection; 0 is 10 000
	Warmup   time.Duration
	Duration time.Duration // of the measurement, unless Requests is set
	Requests uint64        // number of calls to measure
	Rounds   int           // number of equal parts of Duration; 0 is 1
	Timeout  time.Duration // of a call; 0 is 20 s
	// Mark is called when the measurement begins (0), between rounds, and when it ends (Rounds). Tell is called twice a second. Both may be
	// nil.
	Mark func(i int)
	Tell func(Progress)
}

// Call is one kind of call.
type Call struct {
	Name   string // in reports
	Method string // of JSON-RPC; over REST only tools/call and tools/list
	Header string // value of Mcp-Name, encoded as a header; empty: none
	// Params is a JSON object, or empty. In it {n} stands for ten digits that differ in every call, and may appear in the answer.
	Params string
	Weight int // relative to other calls; 0 is 1
	// Varies is set if the answer differs each time. Then only the form of the answer is checked.
	Varies bool
	// Text is the expected text of the answer, with {n} as in Params. If empty, all answers must be like the first.
	Text string
}

// Number stands in Params and Text for the ten digits of the call.
const Number = "{n}"

// Progress is the state of a run.
type Progress struct {
	Phase   string // "warm-up" or "measuring"
	Elapsed time.Duration
	Of      time.Duration // 0: the end depends on Requests
	Right   uint64
	Wrong   uint64
	Rate    float64 // correct answers per second, recently
}

// Result is the result of a run.
type Result struct {
	Right   uint64
	Wrong   []Wrong // most frequent first
	Errors  uint64  // wrong or missing answers
	Warmup  uint64  // errors in the warm-up
	Unsent  uint64  // open loop: calls that were due but not sent; Latency contains their waiting time
	Anew    uint64  // connections that the server had closed between two calls and that were reopened
	Strays  uint64  // messages that answer none of the connection's calls
	BytesIn uint64  // size of the messages, without HTTP
	Elapsed time.Duration
	// Latency is measured from when a call was due, which in a closed loop is when it was sent. Service is measured from when it was sent;
	// nil in a closed loop. Both are in nanoseconds.
	Latency, Service *hdrhistogram.Histogram
	Rounds           []Round
	Seconds          []Second
	Interrupted      bool
	// Broken is the reason why the run ended early; nil if it did not.
	Broken error
}

// Round is a part of the measurement.
type Round struct {
	Right, Errors, Unsent uint64
	Elapsed               time.Duration
	Latency               *hdrhistogram.Histogram
}

// Second is one second of the measurement, by the arrival of answers.
type Second struct {
	Right, Errors uint64
	Sum, Max      time.Duration // of the latencies
}

// Wrong is one kind of wrong answer.
type Wrong struct {
	Kind    string
	Count   uint64
	Example string
}

const (
	defaultTimeout = 20 * time.Second
	defaultQueue   = 10_000
	shortest       = int64(time.Microsecond)
	longest        = int64(time.Hour)
	precision      = 3 // significant digits
)

func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(shortest, longest, precision) }

// complete checks a plan and sets its defaults.
func (p *Plan) complete() error {
	p.Processes, p.Rounds = max(p.Processes, 1), max(p.Rounds, 1)
	if p.Queue == 0 {
		p.Queue = defaultQueue
	}
	if p.Timeout <= 0 {
		p.Timeout = defaultTimeout
	}
	switch {
	case p.Connections < 1 || p.Connections > MaxConnections:
		return fmt.Errorf("drive: %d connections are out of bounds; fix: use 1 to %d", p.Connections, MaxConnections)
	case p.Processes > MaxProcesses || p.Queue < 1 || p.Queue > MaxQueue || p.Rounds > MaxRounds || p.Rate < 0 || p.Rate > MaxRate:
		return fmt.Errorf("drive: out of bounds: at most %d processes, %d calls that wait, %d rounds, %d calls a second", MaxProcesses, MaxQueue, MaxRounds, MaxRate)
	case (p.Duration <= 0) == (p.Requests == 0):
		return errors.New("drive: a plan has either a duration or a number of requests")
	case p.Duration > MaxDuration || p.Warmup > MaxDuration:
		return fmt.Errorf("drive: longer than %s", MaxDuration)
	case len(p.Calls) < 1 || len(p.Calls) > MaxCalls:
		return fmt.Errorf("drive: %d kinds of calls; fix: 1 to %d", len(p.Calls), MaxCalls)
	}
	if p.Requests > 0 {
		p.Rounds = 1 // their length is not known
	}
	size := 0
	for i := range p.Calls {
		c := &p.Calls[i]
		c.Weight = max(c.Weight, 1)
		if p.Face == REST && c.Method != "tools/call" && c.Method != "tools/list" {
			return fmt.Errorf("drive: the REST envelope has tools/call and tools/list, not %s", c.Method)
		}
		if len(c.Params) > MaxMessage {
			return fmt.Errorf("drive: %s has more than %d bytes", c.Name, MaxMessage)
		}
		size += len(c.Params)
	}
	if size*p.Connections > maxRequests {
		return fmt.Errorf("drive: requests of %d bytes over %d connections take more than %d bytes of memory; fix: fewer connections", size, p.Connections, maxRequests)
	}
	return nil
}

// order returns the repeating sequence of calls: each as often as its weight, shuffled, and the same in every run.
func order(calls []Call) []uint8 {
	total, divisor := 0, 0
	for _, c := range calls {
		total += c.Weight
		divisor = gcd(c.Weight, divisor)
	}
	for total/divisor > maxWeights {
		divisor *= 2
	}
	var out []uint8
	for i, c := range calls {
		for range max(1, c.Weight/divisor) {
			out = append(out, uint8(i))
		}
	}
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // no secret
	r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
