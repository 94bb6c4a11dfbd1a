package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Outcome is the outcome of one feature between a kind of client and a kind of server.
type Outcome string

// The outcomes: it passed; it failed; it does not exist between the two; it fails without a proxy too, for the reason
// in the note.
const (
	OK       Outcome = "ok"
	Fail     Outcome = "fail"
	None     Outcome = "n/a"
	Baseline Outcome = "baseline"
)

// Result is one line of a results file.
type Result struct {
	Client  string // the kind of client
	Server  string // the kind of server
	Feature string // GROUP/NAME, or a group of its own
	Outcome Outcome
	Note    string // the reason, which a baseline must have
}

// group is the heading of a feature.
func (r *Result) group() string {
	group, _, _ := strings.Cut(r.Feature, "/")
	return group
}

// merged reports whether the server was one of several that are served as one.
func (r *Result) merged() bool { return strings.HasPrefix(r.Server, "merged ") }

// Header is the first line of a results file: the names of its columns, separated by tabs.
const Header = "client\tserver\tfeature\tresult\tnote"

var columns = strings.Split(Header, "\t")

// Limits of a results file: bytes of a line, and lines.
const (
	maxLine  = 64 << 10
	maxLines = 100_000
)

// Read reads a results file: [Header], then a line for each client, server and feature. Errors name line and column: a wrong
// header or number of columns, an empty name, an unknown result, a baseline without a note, a duplicate line, a line of more
// than 64 KiB, more than 100 000 lines.
func Read(r io.Reader) ([]Result, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 4096), maxLine)
	var out []Result
	at := 0
	seen := map[[3]string]int{}
	for lines.Scan() {
		at++
		text := strings.TrimSuffix(lines.Text(), "\r")
		if at == 1 {
			if text != Header {
				return nil, fmt.Errorf("line 1: the header is %q, not %q", text, Header)
			}
			continue
		}
		if at > maxLines {
			return nil, fmt.Errorf("line %d: more than %d lines", at, maxLines)
		}
		one, err := parse(text)
		if err != nil {
			return nil, fmt.Errorf("line %d%w", at, err)
		}
		key := [3]string{one.Client, one.Server, one.Feature}
		if before := seen[key]; before > 0 {
			return nil, fmt.Errorf("line %d, column feature: %s of %s at %s stands on line %d already", at, one.Feature, one.Client, one.Server, before)
		}
		seen[key] = at
		out = append(out, one)
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, fmt.Errorf("line %d: longer than %d bytes", at+1, maxLine)
	case err != nil:
		return nil, fmt.Errorf("line %d: %w", at+1, err)
	case at == 0:
		return nil, fmt.Errorf("line 1: the header %q is missing", Header)
	}
	return out, nil
}

// parse reads one line after the header.
func parse(text string) (Result, error) {
	cells := strings.Split(text, "\t")
	if len(cells) != len(columns) {
		return Result{}, fmt.Errorf(": %d columns, want %d parted by tabs (%s)", len(cells), len(columns), strings.Join(columns, ", "))
	}
	for i, cell := range cells {
		if !utf8.ValidString(cell) || strings.ContainsFunc(cell, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return Result{}, fmt.Errorf(", column %s: %q holds what is no text", columns[i], cell)
		}
		if i < 3 && strings.TrimSpace(cell) == "" {
			return Result{}, fmt.Errorf(", column %s: is empty", columns[i])
		}
	}
	one := Result{Client: cells[0], Server: cells[1], Feature: cells[2], Outcome: Outcome(cells[3]), Note: strings.TrimSpace(cells[4])}
	switch one.Outcome {
	case OK, Fail, None:
	case Baseline:
		if one.Note == "" {
			return Result{}, errors.New(", column note: is empty; a baseline says why")
		}
	default:
		return Result{}, fmt.Errorf(", column result: %q is none of %s, %s, %s, %s", one.Outcome, OK, Fail, None, Baseline)
	}
	return one, nil
}
