package storetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"dragoman/adapters/catalogue"
)

// PinStore tests a Pins. open returns a new one without pins, and a function that opens it again, as after a restart; nil if it does not
// outlive that.
func PinStore(t *testing.T, open func(t *testing.T) (p catalogue.Pins, again func() catalogue.Pins)) {
	for name, test := range map[string]func(t *testing.T, p catalogue.Pins, again func() catalogue.Pins){
		"round trip": pinsKept, "at once": pinsAtOnce, "ended": pinsEnded,
	} {
		t.Run(name, func(t *testing.T) {
			p, again := open(t)
			test(t, p, again)
		})
	}
	if p, _ := open(t); p != nil {
		if r, both := p.(catalogue.Registry); both {
			t.Run("removed with its registration", func(t *testing.T) { pinsOfRegistration(t, p, r) })
		}
	}
}

// pin returns a pin with something in each field.
func pin(kind, key, definition string) catalogue.Pin {
	return catalogue.Pin{Kind: kind, Key: key, Hash: sha256.Sum256([]byte(definition)), Definition: []byte(definition), By: "é", At: time.UnixMilli(1_800_000_000_123)}
}

func putPins(t *testing.T, p catalogue.Pins, server string, pins ...catalogue.Pin) {
	t.Helper()
	if err := p.PutPins(t.Context(), server, pins); err != nil {
		t.Fatal(err)
	}
}

// wantPins expects the pins of a server, in their order.
func wantPins(t *testing.T, p catalogue.Pins, server string, want ...catalogue.Pin) {
	t.Helper()
	got, err := p.Pins(t.Context(), server)
	if err != nil || len(got) != len(want) {
		t.Fatalf("%s has %d pins, want %d: %v", server, len(got), len(want), err)
	}
	for i, w := range want {
		g := got[i]
		if g.Kind != w.Kind || g.Key != w.Key || g.Hash != w.Hash || !bytes.Equal(g.Definition, w.Definition) || g.By != w.By || !g.At.Equal(w.At) {
			t.Errorf("%s: stored %+v\nwant %+v", server, g, w)
		}
	}
}

func pinsKept(t *testing.T, p catalogue.Pins, again func() catalogue.Pins) {
	wantPins(t, p, "1")
	a, b, prompt := pin("tools", "a", `{"name":"a","description":"é\u0000"}`), pin("tools", "b", "{}"), pin("prompts", "a", "[]")
	whole := pin("server", "", "")
	whole.Definition = []byte{}
	putPins(t, p, "1", b, whole, a, prompt)
	putPins(t, p, "2", a)
	wantPins(t, p, "1", prompt, whole, a, b)
	wantPins(t, p, "2", a)
	other := pin("tools", "a", `{"name":"a"}`)
	other.By, other.At = "another", other.At.Add(time.Hour)
	putPins(t, p, "1", other)
	putPins(t, p, "1")
	wantPins(t, p, "1", prompt, whole, other, b)
	if again != nil {
		p = again()
		wantPins(t, p, "1", prompt, whole, other, b)
	}
	for range 2 { // the second time there are none
		if err := p.RemovePins(t.Context(), "1"); err != nil {
			t.Error(err)
		}
	}
	wantPins(t, p, "1")
	wantPins(t, p, "2", a)
}

// pinsAtOnce has many put pins at a time: those of one call stay together.
func pinsAtOnce(t *testing.T, p catalogue.Pins, _ func() catalogue.Pins) {
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			text := fmt.Sprint(i)
			if err := p.PutPins(t.Context(), "1", []catalogue.Pin{pin("tools", "a", text), pin("tools", "b", text), pin("tools", "c"+text, text)}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	got, err := p.Pins(t.Context(), "1")
	if err != nil || len(got) != 18 || !bytes.Equal(got[0].Definition, got[1].Definition) {
		t.Errorf("%d pins, %v", len(got), err)
	}
}

// pinsEnded has calls whose context has ended change nothing, unless the pins are in memory and need no time.
func pinsEnded(t *testing.T, p catalogue.Pins, again func() catalogue.Pins) {
	if again == nil {
		return
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.PutPins(ctx, "1", []catalogue.Pin{pin("tools", "a", "{}")}); !errors.Is(err, context.Canceled) {
		t.Errorf("put: %v", err)
	}
	wantPins(t, p, "1")
}

func pinsOfRegistration(t *testing.T, p catalogue.Pins, r catalogue.Registry) {
	a, b := put(t, r, registration("a")), put(t, r, registration("b"))
	putPins(t, p, a.ID, pin("tools", "a", "{}"))
	putPins(t, p, b.ID, pin("tools", "a", "{}"))
	a.Description = "changed"
	a = put(t, r, a)
	wantPins(t, p, a.ID, pin("tools", "a", "{}"))
	if err := r.Remove(t.Context(), a.ID); err != nil {
		t.Fatal(err)
	}
	wantPins(t, p, a.ID)
	wantPins(t, p, b.ID, pin("tools", "a", "{}"))
}
