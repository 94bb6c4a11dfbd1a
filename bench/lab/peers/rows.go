//go:build linux

package main

import "dragoman/bench/measure"

// leftover counts the processes that had to be killed after a contender got SIGTERM.
type leftover struct {
	Contender string `json:"contender"`
	Processes int    `json:"processes"`
	Example   string `json:"example"`
}

// rateRow is the rate of a contender with one size of call.
type rateRow struct {
	Contender string   `json:"contender"`
	What      string   `json:"what"`
	Face      faceKind `json:"face"`
	Size      size     `json:"size"`
	Rounds    []rate   `json:"rounds"`
	First     string   `json:"first_error,omitempty"`
	Note      string   `json:"note,omitempty"` // why there are no figures

	PerSecond measure.Spread `json:"requests_per_second"`
	Own       measure.Spread `json:"proxy_cpu_us_per_request"`
	All       measure.Spread `json:"cpu_us_per_request"`           // with children
	Generator measure.Spread `json:"generator_cpu_us_per_request"` // of the clients
	P50       measure.Spread `json:"p50_us"`
	P99       measure.Spread `json:"p99_us"`
	Errors    uint64         `json:"errors"`
	Strays    uint64         `json:"strays"`

	contender *contender
	running   *running
}

// rate is one round.
type rate struct {
	Requests  uint64  `json:"requests"`
	Errors    uint64  `json:"errors"`
	Strays    uint64  `json:"strays"`
	PerSecond float64 `json:"requests_per_second"`
	Own       float64 `json:"proxy_cpu_us_per_request"`
	All       float64 `json:"cpu_us_per_request"`
	Generator float64 `json:"generator_cpu_us_per_request"`
	P50       float64 `json:"p50_us"`
	P99       float64 `json:"p99_us"`
}

func (row *rateRow) values(f func(*rate) float64) []float64 { return measure.Values(row.Rounds, f) }

func perSecond(r *rate) float64 { return r.PerSecond }

func ownCPU(r *rate) float64 { return r.Own }

func (row *rateRow) sum() {
	row.PerSecond = measure.Sum(row.values(perSecond))
	row.Own = measure.Sum(row.values(ownCPU))
	row.All = measure.Sum(row.values(func(r *rate) float64 { return r.All }))
	row.Generator = measure.Sum(row.values(func(r *rate) float64 { return r.Generator }))
	row.P50 = measure.Sum(row.values(func(r *rate) float64 { return r.P50 }))
	row.P99 = measure.Sum(row.values(func(r *rate) float64 { return r.P99 }))
	for i := range row.Rounds {
		row.Errors += row.Rounds[i].Errors
		row.Strays += row.Rounds[i].Strays
	}
}

// sessionRow holds the memory of a contender with this many open sessions, each with its connection.
type sessionRow struct {
	Contender string   `json:"contender"`
	What      string   `json:"what"`
	Face      faceKind `json:"face"`
	Wanted    int      `json:"sessions_wanted"`
	Open      int      `json:"sessions_open"`
	Failed    int      `json:"sessions_failed"`
	First     string   `json:"first_failure,omitempty"`
	Note      string   `json:"note,omitempty"`
	Seconds   float64  `json:"seconds_to_open"` // of the sessions that the row before does not have
	Census    census   `json:"census"`
}

// idleRow is the memory of Dragoman's own process for idle sessions with closed connections.
type idleRow struct {
	What       string  `json:"what"`
	Sessions   int     `json:"sessions"`
	Failed     int     `json:"sessions_failed"`
	First      string  `json:"first_failure,omitempty"`
	Children   int     `json:"children"`
	PSS        int64   `json:"pss"` // of the process itself
	USS        int64   `json:"uss"`
	PerSession float64 `json:"pss_per_session"` // growth of the process since before the sessions
	Further    float64 `json:"pss_per_further_session,omitempty"`
	Reaper     int64   `json:"guardian_pss"`
}

// idleTarget is the goal for the memory of an idle session without its child, in bytes.
const idleTarget = 8 << 10

// abandonedRow counts what a contender still holds of abandoned sessions.
type abandonedRow struct {
	Contender string   `json:"contender"`
	What      string   `json:"what"`
	Face      faceKind `json:"face"`
	IdleTTL   string   `json:"idle_time"` // idle timeout of sessions; empty: its default
	Sessions  int      `json:"sessions"`
	Failed    int      `json:"sessions_failed"`
	Before    census   `json:"before"`
	Then      census   `json:"when_abandoned"`
	Later     census   `json:"later"`
	Seconds   float64  `json:"later_seconds"`

	running *running
}

// startRow is the time from the start of a contender to its first correct answers to initialize and a call, in milliseconds.
type startRow struct {
	Contender string         `json:"contender"`
	What      string         `json:"what"`
	Starts    []float64      `json:"starts_ms"`
	Sum       measure.Spread `json:"first_answer_ms"`
	Note      string         `json:"note,omitempty"`
}
