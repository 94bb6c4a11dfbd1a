package cli

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-json"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/net/http/httpguts"

	"dragoman/bench/load/drive"
	benchreport "dragoman/bench/report"
	suitepeer "dragoman/conformance/peer"
	"dragoman/conformance/suite"
	"dragoman/internal/app/logging"
	"dragoman/internal/config/value"
)

// BenchOptions are the checked options of `dragoman bench`.
type BenchOptions struct {
	// URL is the server's address; if it is empty, Command starts the server.
	URL     string
	Command []string
	// Face and Revision select how the server is called; empty means the first that it offers.
	Face, Revision string
	// Calls are the calls to make; if empty, a suitable call is chosen or, with Sizes, the reference servers' tool.
	Calls []BenchCall
	// Sizes are the lengths of the requests to a reference server, one run each. Answer is the length of the answers; 0
	// means the same. Streams is the share of answers that are requested as event streams.
	Sizes   []int
	Answer  int
	Streams float64
	Varies  bool

	Connections, Processes, Queue, Rounds int
	Rate                                  float64 // calls a second; 0: a closed loop
	Warmup, Duration, Timeout             time.Duration
	Requests                              uint64 // 0: limited by Duration
	// Sessions are numbers of idle sessions, in ascending order.
	Sessions []int
	// PID is the process to measure; 0 means none. PIDOfPort selects the process that listens on the URL's port.
	PID       int
	PIDOfPort bool
	Metrics   string

	Thresholds []benchreport.Threshold
	Headers    suitepeer.Fields // never shown in reports
	TLS        *tls.Config      // nil means the system's roots
	JSON, HTML string           // files; "-" is standard output
	Compare    string
	Old        *benchreport.Report // the report read from Compare
	Colour     func(w io.Writer) bool
}

// BenchCall is one kind of call in a mix.
type BenchCall struct {
	Name      string          `json:"name"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Method    string          `json:"method"`
	Params    json.RawMessage `json:"params"`
	Weight    int             `json:"weight"`
	Varies    bool            `json:"varies"`
}

const (
	maxCallFile    = 64 << 20
	maxWeight      = 10_000
	leastBenchTime = 10 * time.Millisecond
)

// benchOptions checks the flags and arguments.
func (p *program) benchOptions(c *cobra.Command, f *benchFlags, args []string) (*BenchOptions, error) {
	opt := &f.BenchOptions
	opt.Colour = func(w io.Writer) bool { return logging.Colourful(w, p.environ) }
	if err := cmp.Or(misplacedFile(f.JSON, args), opt.target(c, args)); err != nil {
		return nil, err
	}
	for _, check := range []func(*pflag.FlagSet) error{f.bounds, f.fits, f.calls, f.files} {
		if err := check(c.Flags()); err != nil {
			return nil, err
		}
	}
	for _, text := range f.fail {
		t, err := benchreport.ParseThreshold(text)
		if err != nil {
			return nil, usagef("--fail %q: %w", value.Shorten(text), err)
		}
		opt.Thresholds = append(opt.Thresholds, t)
	}
	var err error
	opt.Headers, opt.TLS, err = p.access(f.header, f.caFile)
	return opt, err
}

// target parses the arguments `URL | -- COMMAND…`.
func (o *BenchOptions) target(c *cobra.Command, args []string) error {
	named, err := target(c, args)
	switch {
	case err != nil:
		return err
	case len(named) == 0:
		return usagef("a URL or a COMMAND is missing; fix: write `%s https://HOST/PATH` or `%s -- COMMAND`", c.CommandPath(), c.CommandPath())
	case named[0].List:
		o.Command = named[0].Value
		return nil
	}
	o.URL = named[0].Value[0]
	return checkHTTP(o.URL, "or load the server as a COMMAND")
}

// bounds checks the limits of numeric options.
func (f *benchFlags) bounds(flags *pflag.FlagSet) error {
	for _, n := range []struct {
		flag             string
		got, least, most float64
	}{
		{"connections", float64(f.Connections), 1, drive.MaxConnections}, {"processes", float64(f.Processes), 1, drive.MaxProcesses},
		{"queue", float64(f.Queue), 1, drive.MaxQueue}, {"rounds", float64(f.Rounds), 1, drive.MaxRounds}, {"stream-share", f.Streams, 0, 1},
		{"rate", f.Rate, 0, drive.MaxRate}, {"answer-size", float64(f.Answer), 0, drive.MaxMessage}, {"pid", float64(f.PID), 0, math.MaxInt32},
	} {
		if math.IsNaN(n.got) || n.got < n.least || n.got > n.most || flags.Changed(n.flag) && n.got == 0 && n.flag != "stream-share" {
			return usagef("--%s: %v is out of bounds; fix: write %v to %v", n.flag, n.got, max(n.least, min(1, n.most)), n.most)
		}
	}
	for _, d := range []struct {
		flag        string
		got, least  time.Duration
		longestTime time.Duration
	}{{"warmup", f.Warmup, 0, drive.MaxDuration}, {"duration", f.Duration, leastBenchTime, drive.MaxDuration}, {"timeout", f.Timeout, leastBenchTime, mostAnswerTime}} {
		if d.got < d.least || d.got > d.longestTime {
			return usagef("--%s: %s is out of bounds; fix: write %s to %s", d.flag, d.got, d.least, d.longestTime)
		}
	}
	for _, n := range f.Sizes {
		if n < 1 || n > drive.MaxMessage {
			return usagef("--size: %d is out of bounds; fix: write 1 to %d", n, drive.MaxMessage)
		}
	}
	slices.Sort(f.Sessions)
	for _, n := range f.Sessions {
		if n < 1 || n > drive.MaxSessions {
			return usagef("--sessions: %d is out of bounds; fix: write 1 to %d", n, drive.MaxSessions)
		}
	}
	if f.Requests == 0 && flags.Changed("requests") {
		return usagef("--requests: 0 is out of bounds; fix: write 1 or more")
	}
	return nil
}

// fits refuses flags that exclude each other.
func (f *benchFlags) fits(flags *pflag.FlagSet) error {
	both := func(a, b string) error {
		if flags.Changed(a) && flags.Changed(b) {
			return usagef("both --%s and --%s are given; fix: leave one out", a, b)
		}
		return nil
	}
	for _, pair := range [][2]string{{"requests", "duration"}, {"tool", "method"}, {"tool", "mix"}, {"method", "mix"}, {"size", "tool"}, {"size", "method"}, {"size", "mix"}, {"pid", "pid-of-port"},
		{"tool", "params"}, {"method", "arguments"}, {"requests", "rounds"}} {
		if err := both(pair[0], pair[1]); err != nil {
			return err
		}
	}
	for _, pair := range [][2]string{{"arguments", "tool"}, {"params", "method"}, {"queue", "rate"}} {
		if flags.Changed(pair[0]) && !flags.Changed(pair[1]) {
			return usagef("--%s is for --%s; fix: leave it out, or add --%s", pair[0], pair[1], pair[1])
		}
	}
	if f.Face != "" && !slices.Contains(faceNames(), f.Face) {
		return unknownWord("face", f.Face, faceNames())
	}
	if known := suite.From(""); f.Revision != "" && !slices.Contains(known, f.Revision) {
		return unknownWord("revision", f.Revision, known)
	}
	stdio := f.URL == ""
	if f.Face != "" && suitepeer.Face(f.Face).Stdio() != stdio {
		return usagef("--face %s does not go with what is to be loaded; fix: stdio is for a COMMAND, all else for a URL", f.Face)
	}
	for _, flag := range []string{"header", "ca-file", "pid", "pid-of-port", "sessions", "stream-share"} {
		if stdio && flags.Changed(flag) {
			return usagef("--%s is for a URL, and a COMMAND is given; fix: leave it out", flag)
		}
	}
	if !stdio && flags.Changed("processes") {
		return usagef("--processes is for a COMMAND, and a URL is given; fix: leave it out")
	}
	return nil
}

// calls parses the flags that name calls.
func (f *benchFlags) calls(*pflag.FlagSet) (err error) {
	one := BenchCall{Tool: f.tool, Method: f.method}
	switch {
	case f.mix != "":
		return f.readMix(f.mix)
	case f.tool != "":
		one.Arguments, err = jsonFlag("arguments", f.arguments)
	case f.method != "":
		one.Params, err = jsonFlag("params", f.params)
	default:
		return nil
	}
	if err == nil {
		err = one.check()
	}
	if err != nil {
		return err
	}
	f.Calls = []BenchCall{one}
	return nil
}

func (o *BenchOptions) readMix(path string) error {
	raw, err := readUpTo(path, maxCallFile)
	if err != nil {
		return failed(fmt.Errorf("--mix: %s cannot be read: %v; fix: check the path", path, value.Reason(err)))
	}
	if err = json.Unmarshal(raw, &o.Calls); err != nil || len(o.Calls) == 0 || len(o.Calls) > drive.MaxCalls {
		return failed(fmt.Errorf(`--mix: %s is no list of calls; fix: write a JSON array of 1 to %d, like [{"tool":"echo","arguments":{"text":"x"},"weight":3},{"method":"tools/list"}]`, path, drive.MaxCalls))
	}
	for i := range o.Calls {
		if err := o.Calls[i].check(); err != nil {
			return failed(fmt.Errorf("--mix: %s, call %d: %w", path, i+1, err))
		}
	}
	return nil
}

// check checks one call.
func (b *BenchCall) check() error {
	switch {
	case (b.Tool == "") == (b.Method == ""):
		return usagef("a call has either a tool or a method; fix: name one of them")
	case b.Tool != "" && b.Params != nil, b.Method != "" && b.Arguments != nil:
		return usagef("arguments are for a tool, params for a method; fix: name them like that")
	case b.Weight < 0 || b.Weight > maxWeight:
		return usagef("a weight of %d is out of bounds; fix: write 1 to %d", b.Weight, maxWeight)
	case b.Method != "" && !httpguts.ValidHeaderFieldValue(b.Method) || strings.ContainsAny(b.Method, "\"\\"):
		return usagef("%q is no method; fix: write one such as tools/list", value.Shorten(b.Method))
	}
	for _, raw := range []json.RawMessage{b.Arguments, b.Params} {
		var members map[string]json.RawMessage
		if raw == nil {
			continue
		}
		if err := json.Unmarshal(raw, &members); err != nil || members == nil {
			return usagef("arguments and params are JSON objects; fix: write them like {\"text\":\"x\"}")
		}
		if _, has := members["_meta"]; has && b.Params != nil {
			return usagef("params have _meta, which is put in where it is needed; fix: leave it out")
		}
	}
	return nil
}

// jsonFlag returns the JSON value of a flag, or of the file that it names.
func jsonFlag(flag, text string) (json.RawMessage, error) {
	if text == "" {
		return nil, nil
	}
	if path, named := strings.CutPrefix(text, "@"); named {
		raw, err := readUpTo(path, drive.MaxMessage)
		if err != nil {
			return nil, failed(fmt.Errorf("--%s: %s cannot be read: %v; fix: check the path", flag, path, value.Reason(err)))
		}
		text = strings.TrimSpace(string(raw))
	}
	var v map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &v); err != nil || v == nil {
		return nil, usagef("--%s is no JSON object; fix: write it like --%s '{\"text\":\"x\"}'", flag, flag)
	}
	return json.RawMessage(text), nil
}

// readUpTo reads a file of at most most bytes.
func readUpTo(path string, most int64) ([]byte, error) {
	in, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }()
	raw, err := io.ReadAll(io.LimitReader(in, most+1))
	if err == nil && int64(len(raw)) > most {
		err = fmt.Errorf("it has more than %d bytes", most)
	}
	return raw, err
}

// files checks before the measurement that the reports can be written and compared.
func (f *benchFlags) files(*pflag.FlagSet) error {
	if f.JSON != "" && f.JSON == f.HTML {
		return usagef("both --json and --html write to %s; fix: name another file", f.JSON)
	}
	for _, one := range [][2]string{{"json", f.JSON}, {"html", f.HTML}} {
		if one[1] == "" || one[1] == "-" {
			continue
		}
		if _, err := os.Stat(filepath.Dir(one[1])); err != nil {
			return failed(fmt.Errorf("bench: --%s %s cannot be written: %v; fix: name a file in a directory that there is", one[0], one[1], value.Reason(err)))
		}
	}
	if f.Compare == "" {
		return nil
	}
	in, err := os.Open(f.Compare)
	if err == nil {
		f.Old, err = benchreport.Read(in)
		_ = in.Close()
	}
	if err != nil {
		return failed(fmt.Errorf("bench: --compare %s cannot be read: %v; fix: write one with `dragoman bench --json=FILE`", f.Compare, value.Reason(err)))
	}
	return nil
}
