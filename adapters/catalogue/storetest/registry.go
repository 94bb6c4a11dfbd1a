// Package storetest tests what every store of a catalogue must do.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"dragoman/adapters/catalogue"
)

// Registry tests a Registry. open returns a new one without registrations, and a function that opens it again, as after a restart; nil if it
// does not outlive that.
func Registry(t *testing.T, open func(t *testing.T) (r catalogue.Registry, again func() catalogue.Registry)) {
	for name, test := range map[string]func(t *testing.T, r catalogue.Registry, again func() catalogue.Registry){
		"round trip": roundTrip, "refusals": refusals, "one winner": oneWinner, "ended": ended,
	} {
		t.Run(name, func(t *testing.T) {
			r, again := open(t)
			test(t, r, again)
		})
	}
}

// registration returns a registration with something in each field.
func registration(name string) catalogue.Registration {
	at := time.UnixMilli(1_800_000_000_123)
	return catalogue.Registration{ID: "id of " + name, Name: name, Description: "é\n", Transport: "STDIO", Connection: []byte(`{"command":"x", "args":["a\u0000"]}`), HealthURL: "http://127.0.0.1/",
		Wanted: true, Disabled: []string{"a", `"b`}, Registered: at, Updated: at.Add(time.Second)}
}

func put(t *testing.T, r catalogue.Registry, one catalogue.Registration) catalogue.Registration {
	t.Helper()
	stored, err := r.Put(t.Context(), one)
	if err != nil {
		t.Fatal(err)
	}
	return stored
}

func expect(t *testing.T, r catalogue.Registry, want ...catalogue.Registration) {
	t.Helper()
	got, err := r.Registrations(t.Context())
	if err != nil || len(got) != len(want) {
		t.Fatalf("%d registrations, want %d: %v", len(got), len(want), err)
	}
	for i := range want {
		if !got[i].Registered.Equal(want[i].Registered) || !got[i].Updated.Equal(want[i].Updated) {
			t.Errorf("%s was registered %s, changed %s; want %s, %s", got[i].Name, got[i].Registered, got[i].Updated, want[i].Registered, want[i].Updated)
		}
		got[i].Registered, got[i].Updated = want[i].Registered, want[i].Updated
		if len(got[i].Disabled) == 0 && len(want[i].Disabled) == 0 {
			got[i].Disabled = want[i].Disabled // nil or empty
		}
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Errorf("stored %+v\nwant   %+v", got[i], want[i])
		}
	}
}

func roundTrip(t *testing.T, r catalogue.Registry, again func() catalogue.Registry) {
	expect(t, r)
	b := put(t, r, registration("b"))
	a := put(t, r, catalogue.Registration{ID: "1", Name: "a", Transport: "HTTP", Connection: []byte(`{}`)})
	if a.Revision != 1 || b.Revision != 1 {
		t.Errorf("revisions %d, %d, want 1", a.Revision, b.Revision)
	}
	expect(t, r, a, b)
	b.Description, b.Transport, b.Connection, b.HealthURL, b.Wanted, b.Disabled, b.Updated = "", "SSE", []byte(`{"url":"u"}`), "", false, nil, b.Updated.Add(time.Hour)
	if b = put(t, r, b); b.Revision != 2 {
		t.Errorf("revision %d after a change", b.Revision)
	}
	expect(t, r, a, b)
	if again != nil {
		r = again()
		expect(t, r, a, b)
	}
	if err := r.Remove(t.Context(), b.ID); err != nil {
		t.Error(err)
	}
	expect(t, r, a)
	put(t, r, registration("b")) // the name is free, and the id
}

func refusals(t *testing.T, r catalogue.Registry, _ func() catalogue.Registry) {
	a, b := put(t, r, registration("a")), put(t, r, registration("b"))
	changed := func(one catalogue.Registration, change func(*catalogue.Registration)) catalogue.Registration {
		change(&one)
		return one
	}
	for name, test := range map[string]struct {
		put  catalogue.Registration
		want error
	}{
		"a second of one name": {changed(registration("a"), func(r *catalogue.Registration) { r.ID = "other" }), catalogue.ErrExists},
		"a second of one id":   {changed(registration("c"), func(r *catalogue.Registration) { r.ID = a.ID }), catalogue.ErrStale},
		"an old revision":      {changed(a, func(r *catalogue.Registration) { r.Revision-- }), catalogue.ErrStale},
		"a future revision":    {changed(a, func(r *catalogue.Registration) { r.Revision++ }), catalogue.ErrStale},
		"a name that is taken": {changed(a, func(r *catalogue.Registration) { r.Name = "b" }), catalogue.ErrExists},
		"one that is not":      {changed(registration("c"), func(r *catalogue.Registration) { r.Revision = 1 }), catalogue.ErrGone},
	} {
		if _, err := r.Put(t.Context(), test.put); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
	}
	if err := r.Remove(t.Context(), "none"); !errors.Is(err, catalogue.ErrGone) {
		t.Errorf("removed what is not there: %v", err)
	}
	expect(t, r, a, b)
}

// oneWinner has many add, change and remove the same at once: of those that add one name one succeeds, and of those that change one revision.
func oneWinner(t *testing.T, r catalogue.Registry, _ func() catalogue.Registry) {
	const many = 16
	race := func(do func(i int) error) (won int) {
		var mu sync.Mutex
		var all sync.WaitGroup
		for i := range many {
			all.Go(func() {
				err := do(i)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					won++
				case !errors.Is(err, catalogue.ErrExists) && !errors.Is(err, catalogue.ErrStale) && !errors.Is(err, catalogue.ErrGone):
					t.Error(err)
				}
			})
		}
		all.Wait()
		return won
	}
	if won := race(func(i int) error {
		one := registration("a")
		one.ID = fmt.Sprint(i)
		_, err := r.Put(t.Context(), one)
		return err
	}); won != 1 {
		t.Fatalf("%d have added one name", won)
	}
	all, err := r.Registrations(t.Context())
	if err != nil || len(all) != 1 {
		t.Fatalf("%v, %v", all, err)
	}
	if won := race(func(i int) error {
		one := all[0]
		one.Description = fmt.Sprint(i)
		_, err := r.Put(t.Context(), one)
		return err
	}); won != 1 {
		t.Errorf("%d have changed one revision", won)
	}
	if won := race(func(int) error { return r.Remove(t.Context(), all[0].ID) }); won != 1 {
		t.Errorf("%d have removed one registration", won)
	}
	expect(t, r)
}

// ended has calls whose context has ended change nothing, unless the registry is in memory and needs no time.
func ended(t *testing.T, r catalogue.Registry, again func() catalogue.Registry) {
	if again == nil {
		return
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Put(ctx, registration("a")); !errors.Is(err, context.Canceled) {
		t.Errorf("put: %v", err)
	}
	expect(t, r)
}
