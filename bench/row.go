package main

import (
	"context"
	"fmt"
	"time"

	"dragoman/bench/measure"
	"dragoman/proxy/wire"
)

// row is one cell at one size in one section.
type row struct {
	Section     string  `json:"section"`
	Name        string  `json:"name"`
	What        string  `json:"what"`
	Size        int     `json:"size"`
	Connections int     `json:"connections"`
	SSE         bool    `json:"sse,omitempty"`
	Note        string  `json:"note,omitempty"` // why the cell was left out or given up
	Failed      bool    `json:"failed,omitempty"`
	FirstError  string  `json:"first_error,omitempty"`
	Rounds      []round `json:"rounds"`

	PerSecond measure.Spread `json:"requests_per_second"`
	P50       measure.Spread `json:"p50_us"`
	P90       measure.Spread `json:"p90_us"`
	P99       measure.Spread `json:"p99_us"`
	CPU       measure.Spread `json:"cpu_us_per_request"`
	Children  measure.Spread `json:"children_cpu_us_per_request"`
	Behind    measure.Spread `json:"upstream_cpu_us_per_request"`
	Load      measure.Spread `json:"load_cpu_us_per_request"`
	RSS       measure.Spread `json:"rss"`
	// Ratios to the baseline of the same rounds: a higher rate is better, and a lower CPU time.
	RateRatio measure.Spread `json:"requests_ratio"`
	CPURatio  measure.Spread `json:"cpu_ratio"`
	// LeastRatio is the minimum CPU time over the rounds divided by the baseline's minimum. Other load can only raise either.
	LeastRatio float64 `json:"cpu_ratio_of_least"`

	// Instructions is the number of instructions of a call in user mode, if they were counted.
	Instructions      uint64  `json:"instructions,omitempty"`
	InstructionsRatio float64 `json:"instructions_ratio,omitempty"`
	// Hottest lists the functions with the most instructions, and their share.
	Hottest []string `json:"hottest,omitempty"`

	cell cell
}

// round is one measurement.
type round struct {
	Requests  uint64  `json:"requests"`
	Errors    uint64  `json:"errors"`
	PerSecond float64 `json:"requests_per_second"`
	P50       float64 `json:"p50_us"`
	P90       float64 `json:"p90_us"`
	P99       float64 `json:"p99_us"`
	Max       float64 `json:"max_us"`
	CPU       float64 `json:"cpu_us_per_request"`
	Children  float64 `json:"children_cpu_us_per_request"`
	Behind    float64 `json:"upstream_cpu_us_per_request"`
	Load      float64 `json:"load_cpu_us_per_request"`
	RSS       float64 `json:"rss"`
}

// way is the CPU time of a call on its whole way but for the client.
func (r *round) way() float64 { return r.CPU + r.Children + r.Behind }

// where describes what is measured.
func (r *row) where() string { return fmt.Sprintf("%s, %d bytes", r.Section, r.Size) }

func (r *row) fail(err error) {
	r.Failed = true
	r.Note = "failed: " + wire.Visible(err.Error())
}

// values returns one figure of every round.
func (r *row) values(f func(*round) float64) []float64 { return measure.Values(r.Rounds, f) }

// Figures of rounds.
func perSecond(x *round) float64 { return x.PerSecond }

func ofCPU(x *round) float64 { return x.CPU }

func ofP50(x *round) float64 { return x.P50 }

func ofP99(x *round) float64 { return x.P99 }

// errors counts the wrong answers of a row.
func (r *row) errors() uint64 {
	var n uint64
	for i := range r.Rounds {
		n += r.Rounds[i].Errors
	}
	return n
}

// requests counts the correct answers of a row.
func (r *row) requests() (n uint64) {
	for i := range r.Rounds {
		n += r.Rounds[i].Requests
	}
	return n
}

func ratio(s measure.Spread) string {
	if s.Rounds == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f (%.2f-%.2f)", s.Median, s.Min, s.Max)
}

// memoryRow is Dragoman's memory for idle sessions of legacy clients at a legacy server.
type memoryRow struct {
	Name       string       `json:"name"`
	What       string       `json:"what"`
	Less       int          `json:"sessions_before,omitempty"`
	More       int          `json:"sessions"`
	LessRSS    int64        `json:"rss_before,omitempty"`
	MoreRSS    int64        `json:"rss"`
	PerSession float64      `json:"bytes_per_session,omitempty"`
	Held       float64      `json:"held_seconds,omitempty"`
	Growth     float64      `json:"growth"` // of the last quarter of that time over the first, as a share of it
	Course     [][2]float64 `json:"course,omitempty"`
}

// Rows of the section memory.
const (
	memoryClosed = "closed"
	memoryStream = "stream"
	memoryBoth   = "both"
)

// allocRow holds the allocations of a call.
type allocRow struct {
	Name    string  `json:"name"`
	What    string  `json:"what"`
	Calls   uint64  `json:"calls"`
	Objects float64 `json:"objects_per_call"`
	Bytes   float64 `json:"bytes_per_call"`
}

// startRow is the time from the start of a process to its first correct answer.
type startRow struct {
	Name   string         `json:"name"`
	What   string         `json:"what"`
	Times  []float64      `json:"ms"`
	Sum    measure.Spread `json:"first_answer_ms"`
	CPU    measure.Spread `json:"cpu_ms"` // the process's own CPU time by then, which does not depend on other load
	cpu    []float64
	starts func(context.Context) (time.Duration, measure.CPU, error)
}

// Rows of the section start.
const (
	startServer   = "server"
	startHTTP     = "http"
	startChild    = "child"
	startStdio    = "stdio"
	startFigure   = "without-child" // stdio minus child, start by start
	startsARound  = 4
	startPatience = 10 * time.Second
)
