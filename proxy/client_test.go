package proxy

import (
	"bytes"
	"testing"
)

// Callers are one if their principal and the headers that tell its users apart are, whatever their rights.
func TestIdentity(t *testing.T) {
	user := func(principal string, sum byte, name string) Caller {
		return Caller{Principal: principal, Rights: &Rights{Name: name}, Forwarded: &Forwarded{Sum: [16]byte{sum}, Headers: []Header{{"traceparent", name}}}}
	}
	one := user("p", 1, "a")
	if same := user("p", 1, "b"); !one.Is(&same) {
		t.Error("another credential of one user is another caller")
	}
	for _, other := range []Caller{user("p", 2, "a"), user("q", 1, "a"), {Principal: "p"}, {}} {
		if one.Is(&other) || other.Is(&one) || bytes.Equal(one.Identity().Append(nil), other.Identity().Append(nil)) {
			t.Errorf("%+v is %+v", other, one)
		}
	}
	if bare, fields := (Caller{Principal: "p"}), user("p", 0, "a"); !bare.Is(&fields) {
		t.Error("headers that identify nobody make another caller")
	}
	// No bytes begin with those of another identity: a principal cannot continue as a sum.
	all := []Identity{{}, {Principal: "p"}, {Principal: "p" + string(make([]byte, 16))}, {Principal: "p", Sum: [16]byte{1}}, {Principal: string(make([]byte, 200))}}
	for i, a := range all {
		for j, b := range all {
			if i != j && bytes.HasPrefix(a.Append(nil), b.Append(nil)) {
				t.Errorf("%+v begins as %+v", a, b)
			}
		}
	}
}
