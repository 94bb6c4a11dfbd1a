package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"dragoman/bench/load/drive"
	"dragoman/bench/load/watch"
)

func histogram(values ...time.Duration) *hdrhistogram.Histogram {
	h := hdrhistogram.New(int64(time.Microsecond), int64(time.Hour), 3)
	for _, v := range values {
		_ = h.RecordValue(int64(v))
	}
	return h
}

// sample is a report of two runs with every member. faster makes it the report of another server.
func sample(faster time.Duration) *Report {
	var all []time.Duration
	for i := range 1000 {
		all = append(all, time.Duration(i+1)*100*time.Microsecond/faster)
	}
	h := histogram(all...)
	r := &drive.Result{Right: 1000, Errors: 3, Unsent: 2, Anew: 1, Strays: 4, Elapsed: 10 * time.Second, Latency: h, Service: histogram(time.Millisecond),
		Wrong: []drive.Wrong{{Kind: "error -32603", Count: 3, Example: "<script>alert(1)</script>\x1b[31m"}}}
	for i := range 5 {
		r.Rounds = append(r.Rounds, drive.Round{Right: uint64(190 + 5*i), Elapsed: 2 * time.Second / faster, Latency: h})
	}
	for i := range 10 {
		r.Seconds = append(r.Seconds, drive.Second{Right: uint64(100 + i), Errors: 1, Sum: time.Second, Max: 50 * time.Millisecond})
	}
	var marks []watch.Use
	for i := range 6 {
		marks = append(marks, watch.Use{Own: time.Duration(i) * 100 * time.Millisecond, Children: time.Duration(i) * 50 * time.Millisecond, RSS: 50 << 20, ChildrenRSS: 10 << 20})
	}
	course := []watch.Sample{{Use: watch.Use{RSS: 50 << 20, Files: 9, Threads: 7}}, {At: time.Second, Use: watch.Use{RSS: 70 << 20, ChildrenRSS: 10 << 20, Files: 30, Below: 2}}}
	out := &Report{Format: Format, Target: "http://127.0.0.1:1/mcp", Face: "modern-http", Load: Load{Calls: []string{"echo"}, Connections: 16, Rate: 100, DurationUs: 1e7},
		Sessions: []Session{{0, 50 << 20, 0}, {1000, 60 << 20, 1 << 20}}, Notes: []string{"a note"}}
	out.Runs = append(out.Runs, NewRun("one & only", r, []int{7}, marks, course), NewRun("two", &drive.Result{Right: 1, Elapsed: time.Second, Latency: h, Rounds: r.Rounds[:1]}, nil, nil, nil))
	out.Runs[0].Allocs = &Allocs{12, 3456}
	return out
}

func TestNewRun(t *testing.T) {
	r := sample(1).Runs[0]
	if r.RPS != 100 || r.Process.CPU != 500 || r.Process.Children != 250 || r.Process.Cores != 0.075 || r.Process.RSSPeak != 80<<20 || r.Process.FilesPeak != 30 {
		t.Errorf("%+v", r.Process)
	}
	if p := r.Latency.Percentiles; p["p50"] < 49_900 || p["p50"] > 50_100 || p["p99"] < 98_900 || p["p99"] > 99_100 {
		t.Errorf("%v", p)
	}
	if c := r.Latency.Curve; c[0][0] != 0 || c[0][1] < 99 || c[len(c)-1][1] < 99_900 || len(c) < 30 {
		t.Errorf("%v", c)
	}
	if s := r.Spread(func(x Round) float64 { return x.RPS }); s.Median != 100 || s.Min != 95 || s.Max != 105 {
		t.Errorf("%+v", s)
	}
}

func TestThresholds(t *testing.T) {
	f := func(text string, ok bool, got string) {
		t.Helper()
		threshold, err := ParseThreshold(text)
		if err != nil {
			t.Fatal(err)
		}
		r := sample(1)
		r.Runs = r.Runs[:1]
		r.Judge([]Threshold{threshold})
		if len(r.Verdicts) != 1 || r.Verdicts[0].OK != ok || r.Verdicts[0].Got != got {
			t.Errorf("%s: %+v", text, r.Verdicts)
		}
		if want := ok && threshold.AboutErrors(); r.OK != want { // the report has errors
			t.Errorf("%s: OK %v", text, r.OK)
		}
	}
	f("p99<200ms", true, "99.0 ms")
	f("p99 < 20ms", false, "99.0 ms")
	f("p50>1us", true, "50.0 ms")
	f("p99.9<=1s", true, "99.9 ms")
	f("max<1ms", false, "100 ms")
	f("mean<1s", true, "50.0 ms")
	f("errors<0.1%", false, "0.30 %")
	f("errors<1%", true, "0.30 %")
	f("errors<=3", true, "3")
	f("errors<3", false, "3")
	f("unsent<1", false, "2")
	f("rps>1000", false, "100")
	f("rps>=100", true, "100")
	f("cpu<1ms", true, "750 µs")
	f("rss<64MiB", false, "80 MiB")
	f("allocs<20", true, "12")
	f("bytes<1KiB", false, "3.38 KiB")
	r := sample(1)
	threshold, _ := ParseThreshold("cpu<1s")
	r.Judge([]Threshold{threshold})
	if v := r.Verdicts[1]; v.OK || v.Got != "not measured" {
		t.Errorf("what was not measured: %+v", v)
	}
	for _, bad := range []string{"", "p99", "<20ms", "p98<20ms", "p99<20", "p99<-1ms", "errors<x%", "rps>fast", "rss<64Mi", "p99=1ms"} {
		if _, err := ParseThreshold(bad); err == nil || !strings.Contains(err.Error(), "fix:") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestJudgeWithoutThresholds(t *testing.T) {
	f := func(change func(*Run), want bool) {
		t.Helper()
		r := &Report{Runs: []Run{{Right: 5}}}
		change(&r.Runs[0])
		if r.Judge(nil); r.OK != want {
			t.Errorf("%+v: %v", r.Runs, r.OK)
		}
	}
	f(func(*Run) {}, true)
	f(func(r *Run) { r.Errors = 1 }, false)
	f(func(r *Run) { r.Warmup = 1 }, false)
	f(func(r *Run) { r.Broken = "x" }, false)
}

func TestJSON(t *testing.T) {
	var b bytes.Buffer
	r := sample(1)
	if err := r.JSON(&b); err != nil {
		t.Fatal(err)
	}
	got, err := Read(&b)
	if err != nil || len(got.Runs) != 2 || got.Runs[0].Latency.Percentiles["p50"] != r.Runs[0].Latency.Percentiles["p50"] || *got.Runs[0].Rounds[0].CPU != *r.Runs[0].Rounds[0].CPU {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{"", "{}", `{"format":"dragoman-bench/0"}`, "[]"} {
		if _, err := Read(strings.NewReader(bad)); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

// The page is well-formed and self-contained, and has the charts.
func TestHTML(t *testing.T) {
	var b bytes.Buffer
	r := sample(1)
	if err := r.HTML(&b, sample(2)); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	d := xml.NewDecoder(strings.NewReader(strings.TrimPrefix(regexp.MustCompile(`<meta[^>]*>`).ReplaceAllString(page, ""), "<!DOCTYPE html>\n")))
	counts := map[string]int{}
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, page)
		}
		if e, ok := token.(xml.StartElement); ok {
			counts[e.Name.Local]++
		}
	}
	if counts["figure"] != 5 || counts["polyline"] < 8 || counts["circle"] < 4 || counts["table"] < 3 || counts["script"] != 0 {
		t.Errorf("%v", counts)
	}
	for _, want := range []string{"Latency by percentile", "Throughput", "Latency over time", "Memory by idle sessions", ">99.9<", "&lt;script&gt;", "Against the earlier report", "one &amp; only", "prefers-color-scheme: dark"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if m := regexp.MustCompile(`(?:src|href|url)\s*[=(]|@import|NaN|Inf`).FindString(page); m != "" {
		t.Errorf("the page has %q", m)
	}
	b.Reset()
	if err := (&Report{}).HTML(&b, nil); err != nil || strings.Contains(b.String(), "NaN") {
		t.Errorf("of nothing: %v\n%s", err, b.String())
	}
}

func TestTerminal(t *testing.T) {
	var b bytes.Buffer
	r := sample(1)
	threshold, _ := ParseThreshold("p99<20ms")
	r.Judge([]Threshold{threshold})
	if err := r.Terminal(&b, false, sample(2)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"100 calls due per second (open loop)", "2 calls that were due were not sent", "3 times error -32603", "Memory by idle sessions", "11.3 KiB", "FAILED  p99<20ms",
		"note: a note", "spread unknown", "worse", "12 allocations", "1001 correct, 3 wrong or missing, 2 not sent; a threshold was missed", "4 messages answered no call of their connection"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "\x1b") {
		t.Error("control characters in a report without colours")
	}
	b.Reset()
	if err := r.Terminal(&b, true, nil); err != nil || !strings.Contains(b.String(), red) {
		t.Errorf("no colours: %v", err)
	}
}

func TestCompare(t *testing.T) {
	f := func(before, now time.Duration, word string) {
		t.Helper()
		for _, d := range Compare(sample(before), sample(now)).Differences {
			if d.Run == "one & only" && d.Figure == "answers/s" && d.Word() != word {
				t.Errorf("%d to %d: %s, %s", before, now, d.Word(), d.percent())
			}
		}
	}
	f(1, 1, "the same")
	f(1, 2, "better")
	f(2, 1, "worse")
	near := sample(1)
	for i := range near.Runs[0].Rounds {
		near.Runs[0].Rounds[i].RPS += 3
	}
	if d := Compare(sample(1), near).Differences[0]; d.Word() != "within the spread" || d.percent() != "+3.0 %" {
		t.Errorf("a little more: %s, %s", d.Word(), d.percent())
	}
	other := sample(1)
	other.Runs[0].Name, other.Machine.CPUs = "other", 64
	c := Compare(other, sample(1))
	if len(c.Notes) != 2 || !strings.Contains(strings.Join(c.Notes, "\n"), "has no run one & only") {
		t.Errorf("%v", c.Notes)
	}
	closed := sample(1)
	closed.Load.Rate = 0
	for _, c := range []*Comparison{Compare(closed, sample(1)), Compare(sample(1), closed)} {
		for _, d := range c.Differences {
			if d.Figure != "RSS at most" && d.Figure != "allocations" {
				t.Errorf("an open loop against a closed one: %s is compared", d.Figure)
			}
		}
		if len(c.Differences) == 0 || !strings.Contains(strings.Join(c.Notes, "\n"), "only memory and allocations are compared") {
			t.Errorf("an open loop against a closed one: %v, %v", c.Differences, c.Notes)
		}
	}
	if c := Compare(closed, closed); len(c.Differences) < 4 || len(c.Notes) > 0 {
		t.Errorf("two closed loops: %v", c)
	}
}

func TestProgress(t *testing.T) {
	var b bytes.Buffer
	p := NewProgress(&b, true)
	p.Tell("x", "measuring", time.Second, 2*time.Second, 10, 1, 10)
	p.End()
	if got := b.String(); !strings.HasPrefix(got, "\r\x1b[Kx  measuring  ██████████░░░░░░░░░░  1.0 of 2.0 s  10/s  1 wrong") || !strings.HasSuffix(got, "\r\x1b[K") {
		t.Errorf("%q", got)
	}
	b.Reset()
	p = NewProgress(&b, false)
	p.Say("x")
	p.Tell("x", "measuring", time.Second, 2*time.Second, 10, 0, 10)
	p.End()
	if b.Len() > 0 {
		t.Errorf("not on a terminal: %q", b.String())
	}
	p.last = time.Now().Add(-time.Hour)
	if p.Tell("x", "measuring", time.Second, 0, 10, 0, 10); b.String() != "x  measuring  10/s\n" {
		t.Errorf("%q", b.String())
	}
}

func TestTexts(t *testing.T) {
	f := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	f(text(0), "0")
	f(text(12.34), "12.3 µs")
	f(text(1234), "1.23 ms")
	f(text(59.9e6), "59.9 s")
	f(text(3600e6), "1h0m0s")
	f(number(1234567), "1 234 567")
	f(number(-1234), "-1 234")
	f(number(999), "999")
	f(size(1536), "1.50 KiB")
	f(size(3<<30), "3 GiB")
	f(digits(0.001), "0.001")
}
