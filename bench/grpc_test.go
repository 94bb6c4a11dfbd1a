package main

import (
	"encoding/json"
	"strings"
	"testing"

	"dragoman/bench/measure"
)

// ghz sends what the other clients send.
func TestGhzData(t *testing.T) {
	for method, want := range map[string]string{sayMethod: "text", callToolMethod: "arguments"} {
		var got map[string]string
		if err := json.Unmarshal(ghzData(&row{Size: 300, cell: cell{method: method}}), &got); err != nil {
			t.Fatal(err)
		}
		text := got[want]
		if method == callToolMethod {
			var arguments map[string]string
			if err := json.Unmarshal([]byte(text), &arguments); err != nil || got["name"] != providerTool {
				t.Fatal(err, got)
			}
			text = arguments["text"]
		}
		if !strings.HasPrefix(text, "000000000000000190jx") || len(text) < 100 {
			t.Errorf("%s: %q", method, text)
		}
	}
}

// The transcoder that takes less CPU time is the measure.
func TestJudgeGRPC(t *testing.T) {
	of := func(name string, cpu, rate float64) *row {
		return &row{Section: secGRPC, Name: name, Size: 300, Rounds: []round{{CPU: cpu, PerSecond: rate}}, CPU: measure.Spread{Median: cpu}}
	}
	for _, c := range []struct {
		vanguard, gateway float64 // 0: not measured
		better            string
		speed             float64
		met               bool
	}{{100, 80, cellGateway, 0.8, false}, {95, 120, cellVanguard, 0.95, true}, {0, 90, cellGateway, 0.9, true}, {90, 0, cellVanguard, 0.9, true}, {0, 0, "", 0, false}} {
		r := &report{Rows: []*row{of(cellProvider, 100, 10), of(cellGhzProvider, 10, 20)}}
		if c.vanguard > 0 {
			r.Rows = append(r.Rows, of(cellVanguard, c.vanguard, 5))
		}
		if c.gateway > 0 {
			r.Rows = append(r.Rows, of(cellGateway, c.gateway, 5))
		}
		r.judgeGRPC(300)
		if c.better == "" {
			if len(r.Targets) != 0 {
				t.Errorf("%+v", r.Targets)
			}
			continue
		}
		if len(r.Targets) != 1 {
			t.Fatalf("%+v", r.Targets)
		}
		v := r.Targets[0]
		if !strings.HasSuffix(v.What, "a gRPC provider, 300 bytes, against "+c.better) || v.Figure.Median != c.speed || v.Met != c.met ||
			!strings.Contains(v.Beside, "2.00 (2.00-2.00); of ghz's without a hop 0.50") {
			t.Errorf("%+v: %+v", c, v)
		}
	}
}
