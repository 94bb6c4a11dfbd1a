package hook

import (
	"errors"
	"strconv"
	"time"

	"dragoman/proxy/wire"
)

// maxTTL bounds how long an answer is kept, whatever it says.
const maxTTL = time.Hour

var errAnswer = errors.New("its answer is no JSON object")

// answer is what a decision point has answered.
type answer struct {
	allow  bool
	reason string        // of a denial, in the words of another party; empty: none
	ttl    time.Duration // how long it holds for equal questions
}

func (a *answer) outcome() string {
	if a.allow {
		return allowed
	}
	return denied
}

// parse reads the answer of the Open Policy Agent's data API: {"result": true}, or {"result": {"allow": true, "reason": "…", "ttl": 5}}, the
// time in seconds. Anything else in JSON is a denial, as that nothing is defined. The error is for what is no object of JSON.
func parse(text []byte) (a answer, err error) {
	raw := append(append([]byte(`{"jsonrpc":"2.0","id":0,"result":`), text...), '}')
	m, err := wire.Scan(raw)
	if err != nil || !m.Result.IsObject(m.Raw) || int(wire.SkipSpace(m.Raw, m.Result.To)) != len(m.Raw)-1 { // it is all of the text
		return answer{}, errAnswer
	}
	raw = m.Raw
	decision := last(raw, m.Result, "result")
	if !decision.IsObject(raw) {
		a.allow = string(decision.Of(raw)) == "true"
		return a, nil
	}
	a.allow = string(last(raw, decision, "allow").Of(raw)) == "true"
	a.reason = string(last(raw, decision, "reason").Text(raw))
	seconds, err := strconv.ParseFloat(string(last(raw, decision, "ttl").Of(raw)), 64)
	if err == nil && seconds > 0 {
		a.ttl = time.Duration(min(seconds, maxTTL.Seconds()) * float64(time.Second))
	}
	return a, nil
}

// last returns the value of the last member of a name, as decoders of JSON do; the zero Span if there is none.
func last(raw []byte, obj wire.Span, name string) (found wire.Span) {
	for k, v := range wire.Members(raw, obj) {
		if k.Is(raw, name) {
			found = v
		}
	}
	return found
}
