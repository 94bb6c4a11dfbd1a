//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"

	"dragoman/bench/lab/soak/client"
)

// maxWrongs is how many failures are kept in full.
const maxWrongs = 10

// tally counts the results of visits.
type tally struct {
	mu sync.Mutex
	counts
	wrongs []string // unexpected failures, the first of them
}

// counts has what a scenario's clients did and got.
type counts struct {
	Clients  int            `json:"clients"`
	Sessions int            `json:"sessions"` // opened by legacy clients
	Calls    int            `json:"calls"`    // with a correct answer
	Errors   map[string]int `json:"errors"`   // expected errors, by name
	Wrong    int            `json:"wrong"`    // unexpected failures, the first of them
	// Samples has one error of each name in full.
	Samples map[string]string `json:"samples"`
}

func (t *tally) add(n *int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*n++
}

func (t *tally) session() { t.add(&t.Sessions) }
func (t *tally) call()    { t.add(&t.Calls) }

// outcome counts the result of a client's visit to a server.
func (t *tally) outcome(server *server, journey string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Clients++
	if err == nil {
		return
	}
	name := errorName(err)
	if !server.may(name) {
		t.wrong(fmt.Sprintf("%s, %s: %v", server.name, journey, err))
		return
	}
	if t.Errors == nil {
		t.Errors, t.Samples = map[string]int{}, map[string]string{}
	}
	if t.Errors[name] == 0 {
		t.Samples[name] = fmt.Sprintf("%s, %s: %v", server.name, journey, err)
	}
	t.Errors[name]++
}

// wrong counts an unexpected failure. The caller holds t.mu.
func (t *tally) wrong(what string) {
	t.Wrong++
	if len(t.wrongs) < maxWrongs {
		t.wrongs = append(t.wrongs, what)
	}
}

// snapshot returns the counts so far.
func (t *tally) snapshot() (counts, []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.counts
	c.Errors, c.Samples = maps.Clone(t.Errors), maps.Clone(t.Samples)
	return c, slices.Clone(t.wrongs)
}

// The names of failures besides Dragoman's own errors.
const (
	nameLate    = "no answer"
	nameClosed  = "closed"
	nameExpired = "session expired"
	nameWrong   = "wrong"
	nameOther   = "other"
)

func errorName(err error) string {
	var rpc *client.RPCError
	var status *client.StatusError
	var timeout net.Error
	switch {
	case errors.Is(err, client.ErrWrong):
		return nameWrong
	case errors.Is(err, client.ErrExpired):
		return nameExpired
	case errors.As(err, &rpc):
		return rpc.Name()
	case errors.As(err, &status):
		return fmt.Sprint("HTTP ", status.Status)
	case errors.As(err, &timeout) && timeout.Timeout():
		return nameLate
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return nameClosed
	}
	return nameOther
}

// may reports whether an error of this name is expected at the server. A wrong answer never is.
func (s *server) may(name string) bool {
	switch {
	case name == nameWrong, name == nameOther, name == "internal":
		return false
	case name == nameExpired, s.silent():
		return true
	case s.crashes():
		return name != nameLate
	}
	return false
}

// list writes the errors, the most frequent first.
func list(errs map[string]int) string {
	names := slices.SortedFunc(maps.Keys(errs), func(a, b string) int {
		if errs[a] != errs[b] {
			return errs[b] - errs[a]
		}
		return strings.Compare(a, b)
	})
	parts := make([]string, len(names))
	for i, n := range names {
		parts[i] = fmt.Sprintf("%s %d", n, errs[n])
	}
	return strings.Join(parts, ", ")
}
