package drive

import (
	"bytes"
	"context"
	"errors"
	"time"

	"dragoman/bench/reference"
)

// answerAround is about how many bytes of an answer are not its text.
const answerAround = 110

// EchoCall is a call of the reference servers' tool. Its request has size bytes, or as few as possible, and its answer about answer bytes.
// The answer is an event stream if stream is set and the server speaks HTTP.
func EchoCall(face Face, size, answer int, stream bool) Call {
	form := byte(reference.FormJSON)
	if stream {
		form = reference.FormSSE
	}
	text := max(reference.TokenLen, min(answer-answerAround, reference.MaxText))
	token := Number + string(reference.AppendToken(nil, 0, text, form)[numberLen:])
	c := Call{Name: "echo", Method: "tools/call", Header: "echo", Text: token + string(reference.AppendFiller(nil, text-reference.TokenLen))}
	params := func(fill int) string {
		arguments := `{"text":"` + token + string(reference.AppendFiller(nil, fill)) + `"}`
		if face == Plain {
			return arguments
		}
		return `{"name":"echo","arguments":` + arguments + `}`
	}
	c.Params = params(0)
	c.Params = params(max(0, size-length(body(face, reference.ModernVersion, &c))))
	return c
}

// First calls over a connection of its own until the answer is correct, and then returns nil. After a wrong answer it calls again with the
// error, and gives up if that returns false. It is the way to wait for a server that starts.
func First(ctx context.Context, p Plan, again func(error) bool) error {
	p.Connections, p.Duration, p.Requests, p.Warmup, p.Rate = 1, 0, 1, 0, 0
	if err := p.complete(); err != nil {
		return err
	}
	d := newDriver(ctx, &p)
	defer d.close()
	w := d.workers[0]
	for {
		err := w.link.open(ctx)
		if err == nil {
			err = w.call(0, time.Now())
		}
		if err == nil || !again(err) {
			return err
		}
	}
}

// Try makes a call of each kind twice over one connection. For each it returns what is wrong with the answer, nil if it is good, and
// whether the second answer differed from the first. err means that the server cannot be reached.
func Try(ctx context.Context, p Plan) (wrong []error, varies []bool, err error) {
	p.Connections, p.Duration, p.Requests, p.Warmup = 1, 0, 1, 0
	if err = p.complete(); err != nil {
		return nil, nil, err
	}
	d := newDriver(ctx, &p)
	defer d.close()
	if err = d.open(); err != nil {
		return nil, nil, err
	}
	w := d.workers[0]
	for i := range p.Calls {
		first := w.call(i, time.Now())
		var second error
		if first == nil {
			second = w.call(i, time.Now())
		} else if err := w.link.open(ctx); err != nil {
			return nil, nil, errors.Join(err, first)
		}
		f, _ := second.(*fault)
		varies = append(varies, f != nil && f.kind == kindContent)
		if second != nil && !varies[i] {
			first = second
		}
		wrong = append(wrong, first)
	}
	return wrong, varies, nil
}

// Ask makes the plan's first call once and returns the message that answers it.
func Ask(ctx context.Context, p Plan) ([]byte, error) {
	p.Connections, p.Duration, p.Requests, p.Warmup, p.Rate = 1, 0, 1, 0, 0
	if err := p.complete(); err != nil {
		return nil, err
	}
	d := newDriver(ctx, &p)
	defer d.close()
	w := d.workers[0]
	if err := w.link.open(ctx); err != nil {
		return nil, err
	}
	w.digits = digits(w.digits, 0)
	message, status, err := w.link.do(0, w.digits, time.Now().Add(p.Timeout))
	if err == nil && status != statusOK {
		err = statusFault(status, message)
	}
	if err == nil {
		err = d.judges[0].check(message, w.digits)
	}
	return bytes.Clone(message), err
}
