package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"dragoman/bench/measure"
)

// figures is a row of rounds with this CPU time, rate and median latency.
func figures(section, name string, size int, cpu, rate, p50 float64) *row {
	r := &row{Section: section, Name: name, What: "dragoman, " + name, Size: size}
	for i := range 3 {
		jitter := 1 + 0.01*float64(i)
		r.Rounds = append(r.Rounds, round{CPU: cpu * jitter, PerSecond: rate * jitter, P50: p50 * jitter, P99: 2 * p50 * jitter, Behind: 10 * jitter})
	}
	return r
}

func judged(rows ...*row) map[string]verdict {
	r := &report{Rows: rows}
	r.sum()
	r.judge()
	all := map[string]verdict{}
	for _, v := range r.Targets {
		all[v.What] = v
	}
	return all
}

func TestJudge(t *testing.T) {
	all := judged(
		figures(secCalls, baseline, 300, 20, 1000, 100), figures(secCalls, cellNginx, 300, 16, 1000, 100),
		figures(secCalls, cellModern, 300, 22, 950, 100), figures(secCalls, cellLegacy, 300, 22, 800, 100),
		figures(secCalls, cellModernLegacy, 300, 27, 950, 100), figures(secCalls, cellLegacyModern, 300, 28, 950, 100), figures(secCalls, cellStdio, 300, 5, 1000, 100),
		figures(secCalls, baseline, 1<<20, 100, 10, 100), figures(secCalls, cellModern, 1<<20, 105, 10, 100), figures(secCalls, cellLegacy, 1<<20, 125, 10, 100),
		figures(secSSE, baseline, 300, 20, 1000, 100), figures(secSSE, cellModern, 300, 20, 1000, 100), figures(secSSE, cellLegacy, 300, 22, 1000, 100),
		figures(secLatency, cellDirect, 300, 1, 1, 20), figures(secLatency, baseline, 300, 1, 1, 50), figures(secLatency, cellModern, 300, 1, 1, 52), figures(secLatency, cellLegacy, 300, 1, 1, 60),
		figures(secPolicies, cellOff, 300, 30, 1, 1), figures(secPolicies, cellOn, 300, 34, 1, 1),
		figures(secGrowth, "tools-10", 300, 30, 1, 100), figures(secGrowth, "tools-10000", 300, 30, 1, 105),
		figures(secGrowth, "servers-1", 300, 30, 1, 100), figures(secGrowth, "servers-50", 300, 36, 1, 100),
	)
	for what, met := range map[string]bool{
		"same era, modern, 300 bytes: CPU against the bare proxy":                       true,
		"same era, legacy, 300 bytes: CPU against the bare proxy":                       false, // too few answers
		"same era, modern, 300 bytes, against nginx":                                    false,
		"same era, modern, 1048576 bytes, against the bare proxy":                       true,
		"same era, legacy, 1048576 bytes, against the bare proxy":                       false,
		"modern client, legacy server, 300 bytes, against modern":                       true,
		"legacy client, modern server, 300 bytes, against legacy":                       false,
		"to a child, 300 bytes, the whole way against the bare proxy's with its server": true,
		"event streams, modern, 300 bytes, against the bare proxy":                      true,
		"event streams, legacy, 300 bytes, against the bare proxy":                      false,
		"added latency at p50, modern, against the bare proxy's":                        true,
		"added latency at p50, legacy, against the bare proxy's":                        false,
		"added latency at p99, modern, against the bare proxy's":                        true,
		"added latency at p99, legacy, against the bare proxy's":                        false,
		"all policies on against all off":                                               true,
		"tools-10000 against tools-10: p50 of a call":                                   true,
		"servers-50 against servers-1: p50 of a call":                                   false, // the latency is the same, the work is not
	} {
		v, ok := all[what]
		if !ok || v.Met != met || v.Figure.Rounds != 3 {
			t.Errorf("%s: %v, %+v", what, ok, v)
		}
		delete(all, what)
	}
	for what, v := range all {
		if what != "same era, legacy, 300 bytes, against nginx" {
			t.Errorf("not requested: %s: %+v", what, v)
		}
	}
}

// A round in which the bare proxy adds no latency gives no ratio.
func TestJudgeAddedInNoise(t *testing.T) {
	direct, bare, ours := figures(secLatency, cellDirect, 300, 1, 1, 20), figures(secLatency, baseline, 300, 1, 1, 40), figures(secLatency, cellModern, 300, 1, 1, 60)
	direct.Rounds[1].P50, direct.Rounds[1].P99 = 1000, 1000
	if v := judged(direct, bare, ours)["added latency at p50, modern, against the bare proxy's"]; v.Met || v.Figure.Rounds != 2 || v.Figure.Median < 1.9 {
		t.Errorf("%+v", v)
	}
	direct.Rounds, bare.Rounds, ours.Rounds = direct.Rounds[1:2], bare.Rounds[1:2], ours.Rounds[1:2]
	if v := judged(direct, bare, ours)["added latency at p50, modern, against the bare proxy's"]; v.Met || v.word() != "not measured" {
		t.Errorf("%+v", v)
	}
}

func TestJudgeSingles(t *testing.T) {
	r := &report{
		Allocs: []*allocRow{{Name: cellModern, Objects: 5}, {Name: cellLegacy}},
		Start:  []*startRow{{Name: startServer, Sum: measure.Sum([]float64{3})}, {Name: startFigure, Sum: measure.Sum([]float64{9, 9.5, 30})}},
		Memory: []*memoryRow{{Name: memoryClosed, PerSession: 2000}, {Name: memoryStream, PerSession: 5000}, {Name: memoryBoth, Growth: 0.03}},
	}
	r.judge()
	var words []string
	for i := range r.Targets {
		words = append(words, r.Targets[i].word()+" "+r.Targets[i].limit()+" "+r.Targets[i].figure())
	}
	want := "missed ≤ 0 5|met ≤ 10 ms 9.5 ms (9–30)|met ≤ 2048 B 2000 B|missed ≤ 4096 B 5000 B|missed ≤ 2 % 3 %"
	if got := strings.Join(words, "|"); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	// The report has all of it.
	r.Sections = []ran{{Name: secStart}, {Name: secAllocs}, {Name: secMemory, Failed: "no"}}
	var text strings.Builder
	if err := r.document().Markdown(&text); err != nil || !strings.Contains(text.String(), "| missed |") || !strings.Contains(text.String(), "Failed: no") {
		t.Errorf("%v\n%s", err, text.String())
	}
}

func TestGrowth(t *testing.T) {
	var course [][2]float64
	for i := range 100 {
		course = append(course, [2]float64{float64(i), 100 + float64(i/50)})
	}
	course[3][1], course[99][1] = 500, 0 // one reading is none
	if got := growth(course); got < 0.0099 || got > 0.0101 {
		t.Errorf("%v", got)
	}
	if growth(nil) != 0 || growth([][2]float64{{0, 0}}) != 0 || growth([][2]float64{{0, 7}}) != 0 {
		t.Error("of nothing")
	}
}

// The issuer serves the key that signs its token.
func TestIssuer(t *testing.T) {
	i, err := newIssuer()
	if err != nil {
		t.Fatal(err)
	}
	defer i.close()
	defer http.DefaultClient.CloseIdleConnections()
	res, err := http.Get(i.url + "/keys")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var set struct{ Keys []map[string]string }
	if err := json.NewDecoder(res.Body).Decode(&set); err != nil || len(set.Keys) != 1 || set.Keys[0]["n"] != coded(i.key.N.Bytes()) || set.Keys[0]["e"] != "AQAB" {
		t.Errorf("%+v, %v", set, err)
	}
	line, err := i.header()
	if err != nil || !strings.HasPrefix(line, "Authorization: Bearer ey") || strings.Count(line, ".") != 2 || !strings.HasSuffix(line, "\r\n") {
		t.Errorf("%q, %v", line, err)
	}
	if !strings.Contains(i.lines(), i.url+"/keys") {
		t.Error(i.lines())
	}
}

// A log with too few lines means that the policy was not on.
func TestLogged(t *testing.T) {
	x := &targets{dir: t.TempDir()}
	if err := os.WriteFile(filepath.Join(x.dir, "a.log"), []byte(strings.Repeat("x", 500)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := x.logged("a", 10); err != nil {
		t.Error(err)
	}
	if x.logged("a", 11) == nil || x.logged("absent", 0) == nil {
		t.Error("too few lines were accepted")
	}
}

// The time of a start ends with the correct answer, and no process is left behind.
func TestStarts(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	x := newTargets(settings{}, self, t.TempDir())
	took, cpu, err := x.startOf(t.Context(), func(listen string) []string { return []string{self, roleWord, roleUpstream, "--listen", listen} }, true)
	if err != nil || took <= 0 || took > startPatience || runtime.GOOS == "linux" && cpu.Own <= 0 {
		t.Errorf("%v, %v, %v", took, cpu, err)
	}
	if took, err = x.startOfChild(t.Context()); err != nil || took <= 0 {
		t.Errorf("a child: %v, %v", took, err)
	}
	if _, _, err = x.startOf(t.Context(), func(string) []string { return []string{filepath.Join(x.dir, "absent")} }, false); err == nil {
		t.Error("a missing program answered")
	}
}

func TestChooseSections(t *testing.T) {
	if some, err := choose("sections", "memory,calls", allSections()); err != nil || len(some) != 2 || some[0].name != secCalls {
		t.Errorf("%v, %v", some, err)
	}
	if got := counted(1, "servers") + ", " + counted(50, "servers"); got != "1 server, 50 servers" {
		t.Error(got)
	}
	if got := list([]string{"a", `b"c`}); got != `["a", "b\"c"]` {
		t.Error(got)
	}
}
