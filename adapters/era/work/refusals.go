package work

import (
	"fmt"
	"reflect"
	"sync"
	"time"

	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Bounds on the answers that wait for one link. A server may ask more than it reads, or than it may ask.
const (
	refusalsWaiting = 256
	refusalsBytes   = 1 << 20
	// After refusalsBurst answers in a row, one is sent each refusalsPause, so that a server that acknowledges slowly, or never, is
	// not sent each over a connection of its own.
	refusalsBurst = 16
	refusalsPause = 10 * time.Millisecond
)

// refusals holds the answers to questions that nobody answers, by link. Each link has one goroutine while answers wait
// for it: a server that asks without end costs neither connections nor goroutines.
type refusals struct {
	mu    sync.Mutex
	links map[transport.Link]*refusing
}

// refusing holds the refusals that wait for one link.
type refusing struct {
	waiting [][]byte
	bytes   int
	dropped int // questions that get no answer, because too many wait
}

// Refuse answers a question of a server that no client can answer, in the background and one after the other: ping with an empty result,
// all others with the error "method not found". Questions beyond 256, or 1 MiB, of answers that wait get none. A nil link, of a server
// that asks before the handshake, which it must not, gets no answer.
func (g *Group) Refuse(link transport.Link, m *wire.Message) { g.later(link, Refusal(m)) }

// Refusal returns the answer of Refuse.
func Refusal(m *wire.Message) wire.Message {
	if m.Is("ping") {
		return proxy.ResultMessage(m.Of(m.ID), []byte("{}"))
	}
	method := m.Text(m.Method)
	return proxy.ErrorMessage(m.Of(m.ID), proxy.Errf(proxy.MethodNotFound, "%s is not supported in this context: no call of a client that declared it is under way", method[:min(len(method), 100)]))
}

// Decline is Refuse with an error of its own.
func (g *Group) Decline(link transport.Link, m *wire.Message, why *proxy.Error) {
	g.later(link, proxy.ErrorMessage(m.Of(m.ID), why))
}

// later sends an answer in the background.
func (g *Group) later(link transport.Link, answer wire.Message) {
	if link == nil || !reflect.TypeOf(link).Comparable() {
		return
	}
	r := &g.refusals
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.links[link]
	begin := of == nil
	if begin {
		of = &refusing{}
	}
	if len(of.waiting) >= refusalsWaiting || of.bytes+len(answer.Raw) > refusalsBytes {
		of.dropped++
		return
	}
	if begin && !g.Spawn(func() { g.refuse(link, of) }) {
		return
	}
	if r.links == nil {
		r.links = make(map[transport.Link]*refusing)
	}
	r.links[link] = of
	of.waiting, of.bytes = append(of.waiting, answer.Raw), of.bytes+len(answer.Raw)
}

// refuse sends what waits for a link.
func (g *Group) refuse(link transport.Link, of *refusing) {
	r := &g.refusals
	for sent := 0; ; sent++ {
		if sent > refusalsBurst {
			Pause(g.ctx.Done(), time.Now().Add(refusalsPause))
		}
		r.mu.Lock()
		if len(of.waiting) == 0 || g.ctx.Err() != nil {
			delete(r.links, link)
			dropped := of.dropped
			r.mu.Unlock()
			if dropped > 0 {
				g.Note("warn", "the server asks more than it takes answers; some of its questions got none", fmt.Errorf("%d questions that no client can answer", dropped))
			}
			return
		}
		raw := of.waiting[0]
		of.waiting, of.bytes = of.waiting[1:], of.bytes-len(raw)
		r.mu.Unlock()
		began := time.Now()
		if g.Answer(g.ctx, link, raw); time.Since(began) >= AnswerTime { // nor will it read the others
			r.mu.Lock()
			of.dropped += len(of.waiting)
			of.waiting, of.bytes = nil, 0
			r.mu.Unlock()
		}
	}
}
