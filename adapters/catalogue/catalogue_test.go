package catalogue

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a catalogue with a clock of its own.
type rig struct {
	*Catalogue
	t  *testing.T
	at time.Time
}

func newRig(t *testing.T, store Store, servers ...string) *rig {
	t.Helper()
	r := &rig{t: t, at: time.UnixMilli(1_800_000_000_000)}
	c, err := Open(t.Context(), Options{Store: store, Now: func() time.Time { return r.at }})
	if err != nil {
		t.Fatal(err)
	}
	r.Catalogue = c
	t.Cleanup(func() { _ = c.Close() })
	r.keep(servers...)
	return r
}

func (r *rig) keep(servers ...string) {
	kept := map[string]Kept{}
	for _, name := range servers {
		kept[name] = Kept{Transport: "STDIO"}
	}
	r.Keep(kept)
}

// items makes items of "key" or "key=definition".
func items(texts ...string) (all []Item) {
	for _, text := range texts {
		key, raw, ok := strings.Cut(text, "=")
		if !ok {
			raw = `{"name":"` + key + `"}`
		}
		all = append(all, Item{Key: key, Raw: []byte(raw)})
	}
	return all
}

// list describes the list of a server: "key since changed", in seconds since the rig began.
func (r *rig) list(server string, kind Kind) (all []string) {
	r.t.Helper()
	start := time.UnixMilli(1_800_000_000_000)
	for _, item := range r.Snapshot().Server(server).Lists[kind].Items {
		all = append(all, fmt.Sprint(item.Key, " ", int(item.Since.Sub(start).Seconds()), " ", int(item.Changed.Sub(start).Seconds())))
	}
	return all
}

func TestKeepAddsAndRemoves(t *testing.T) {
	r := newRig(t, nil, "b", "a")
	before := r.Snapshot()
	if len(before.Servers) != 2 || before.Servers[0].Name != "a" || before.Servers[1].Name != "b" {
		t.Fatalf("servers: %v", before.Servers)
	}
	id := before.Server("b").ID
	r.keep("b", "c")
	after := r.Snapshot()
	if after.Server("a") != nil || after.Server("c") == nil || after.Server("b").ID != id {
		t.Errorf("a is %v, c is %v, b is %v", after.Server("a"), after.Server("c"), after.Server("b"))
	}
	if before.Server("a") == nil || before.Server("c") != nil {
		t.Error("a snapshot has changed")
	}
	if after.Version <= before.Version {
		t.Error("the version has not risen")
	}
	r.keep("b", "c")
	if again := r.Snapshot(); again.Version != after.Version {
		t.Error("the version has changed without a change")
	}
	r.Keep(map[string]Kept{"b": {Transport: "HTTP"}, "c": {Transport: "STDIO"}})
	if got := r.Snapshot().Server("b"); got.Transport != "HTTP" || got.ID != id {
		t.Errorf("b is %v", got)
	}
}

func TestSetList(t *testing.T) {
	r := newRig(t, nil, "a", "b")
	if !r.SetList("a", Tools, List{Items: items("x", "y")}) {
		t.Error("the first list is no change")
	}
	version := r.Snapshot().Version
	r.at = r.at.Add(time.Second)
	if r.SetList("a", Tools, List{Items: items("x", "y")}) {
		t.Error("the same list is a change")
	}
	if now := r.Snapshot(); now.Version != version || !now.Server("a").Lists[Tools].Fetched.Equal(r.at) {
		t.Errorf("version %d, was %d; fetched %v", now.Version, version, now.Server("a").Lists[Tools].Fetched)
	}
	for _, step := range []struct {
		items []Item
		want  []string
	}{
		{items("y", "x"), []string{"y 0 0", "x 0 0"}},                   // order
		{items("y", "x=new"), []string{"y 0 0", "x 0 3"}},               // definition
		{items("y", "x=new", "z"), []string{"y 0 0", "x 0 3", "z 4 4"}}, // one more
		{items("x=new", "z", "x=newer"), []string{"x 0 5", "z 4 4"}},    // twice, and one less
		{items(), nil},
		{items("y"), []string{"y 7 7"}},
	} {
		r.at = r.at.Add(time.Second)
		if !r.SetList("a", Tools, List{Items: step.items}) {
			t.Errorf("%v is no change", step.want)
		}
		if got := r.list("a", Tools); !slices.Equal(got, step.want) {
			t.Errorf("list %v, want %v", got, step.want)
		}
	}
	if !r.SetList("a", Tools, List{Items: items("y"), TTL: time.Second}) || !r.SetList("a", Tools, List{Items: items("y"), TTL: time.Second, Private: true}) {
		t.Error("how it may be cached is no change")
	}
	if r.SetList("unknown", Tools, List{Items: items("x")}) || r.Snapshot().Server("b").Lists[Tools] != nil || r.Snapshot().Server("a").Lists[Prompts] != nil {
		t.Error("a list is where it does not belong")
	}
}

func TestTheFirstOwnerKeepsAURI(t *testing.T) {
	r := newRig(t, nil, "a", "b")
	owner := func(uri, want string) {
		t.Helper()
		if got := r.Snapshot().Owner(uri); got != want {
			t.Errorf("%s belongs to %q, want %q", uri, got, want)
		}
	}
	owner("demo:1", "")
	r.SetList("b", Resources, List{Items: items("demo:1", "demo:2")})
	r.SetList("a", Resources, List{Items: items("demo:1", "demo:3")})
	owner("demo:1", "b")
	owner("demo:2", "b")
	owner("demo:3", "a")
	r.SetList("b", Resources, List{}) // not listed now
	owner("demo:1", "b")
	r.SetList("a", Tools, List{Items: items("demo:4")})
	owner("demo:4", "")
	r.SetList("a", Templates, List{Items: items("demo:{id}")})
	owner("demo:{id}", "a")
	before := r.Snapshot()
	r.keep("a")
	owner("demo:1", "")
	owner("demo:3", "a")
	version := r.Snapshot().Version
	r.SetList("a", Resources, List{Items: items("demo:1", "demo:3")}) // the same list
	owner("demo:1", "a")
	if r.Snapshot().Version == version {
		t.Error("the version has not changed with an owner")
	}
	if before.Owner("demo:1") != "b" {
		t.Error("a snapshot has changed")
	}
}

func TestDescribeAndSetStatus(t *testing.T) {
	r := newRig(t, nil, "a")
	d := Description{Revision: "r", Info: []byte(`{"name":"x"}`), Capabilities: []byte(`{}`), Instructions: "use x"}
	if !r.Describe("a", d) || r.Describe("a", d) {
		t.Error("the first description is a change, the same is none")
	}
	for _, other := range []func(*Description){
		func(d *Description) { d.Revision = "s" }, func(d *Description) { d.Info = nil },
		func(d *Description) { d.Capabilities = []byte(`{"tools":{}}`) }, func(d *Description) { d.Instructions = "" },
	} {
		next := d
		other(&next)
		if !r.Describe("a", next) || !r.Describe("a", d) {
			t.Errorf("%v is no change of %v", next, d)
		}
	}
	version := r.Snapshot().Version
	r.SetStatus("a", Status{State: "CONNECTED", ConsecutiveFailures: 1})
	if now := r.Snapshot(); now.Version != version || now.Server("a").Status.State != "CONNECTED" || now.Server("a").Instructions != "use x" {
		t.Errorf("version %d, was %d; %v", now.Version, version, now.Server("a"))
	}
}

func TestSetPresence(t *testing.T) {
	store := &doubleStore{}
	r := newRig(t, store, "a")
	for _, step := range []struct {
		to      Presence
		differs bool
	}{{Away, false}, {There, true}, {There, false}, {Out, true}, {Away, true}} {
		before := r.Snapshot()
		r.at = r.at.Add(time.Second)
		r.SetPresence("a", step.to)
		after := r.Snapshot()
		if s := after.Server("a"); s.Presence != step.to || s.Since.Equal(r.at) != step.differs || (after.Version != before.Version) != step.differs {
			t.Errorf("%d: %+v, version %d, was %d", step.to, s, after.Version, before.Version)
		}
	}
	if err := r.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if saved := store.take(); len(saved) != 1 {
		t.Errorf("a presence is stored: %v", saved)
	}
}

func TestSnapshotWith(t *testing.T) {
	r := newRig(t, nil, "a", "b")
	r.SetList("a", Tools, List{Items: items("x")})
	r.SetList("b", Tools, List{Items: items("y")})
	before := r.Snapshot()
	with := before.With("a", Tools, &List{Items: items("own")})
	if with.Server("a").Lists[Tools].Items[0].Key != "own" || with.Server("b") != before.Server("b") || with.Version != before.Version {
		t.Errorf("with another list: %v", with.Servers)
	}
	if before.Server("a").Lists[Tools].Items[0].Key != "x" || before.With("none", Tools, nil).Server("a") != before.Server("a") {
		t.Error("a snapshot has changed")
	}
}

func TestSnapshotInstead(t *testing.T) {
	before := newRig(t, nil, "a", "b").Snapshot()
	other := &Server{Name: "b", Presence: Out}
	instead := before.Instead([]*Server{other, {Name: "unknown"}})
	if len(instead.Servers) != 2 || instead.Server("a") != before.Server("a") || instead.Server("b") != other || instead.Version != before.Version {
		t.Errorf("with another state of b: %v", instead.Servers)
	}
	if before.Server("b") == other {
		t.Error("a snapshot has changed")
	}
}

func TestKindOf(t *testing.T) {
	for k := range Kinds {
		if got, ok := KindOf(k.Method()); !ok || got != k {
			t.Errorf("%s lists %s, %v", k.Method(), got, ok)
		}
	}
	if got, ok := KindOf("tools/call"); ok {
		t.Errorf("tools/call lists %s", got)
	}
}

// Another server under a known name has listed nothing and said nothing, but has the id and the URIs of the name.
func TestSetOrigin(t *testing.T) {
	r := newRig(t, nil, "a")
	r.Describe("a", Description{Instructions: "use x"})
	r.SetList("a", Resources, List{Items: items("demo:1")})
	r.SetStatus("a", Status{State: "CONNECTED"})
	r.SetPresence("a", There)
	known := *r.Snapshot().Server("a")
	for _, step := range []struct {
		origin string
		stays  bool
	}{{"first", true}, {"first", true}, {"second", false}} { // of the first nothing was known before
		r.SetOrigin("a", []byte(step.origin))
		s := r.Snapshot().Server("a")
		want := known
		if want.Origin = []byte(step.origin); !step.stays {
			want.Description, want.Status, want.Lists = Description{}, Status{}, [Kinds]*List{}
		}
		if !reflect.DeepEqual(*s, want) || r.Snapshot().Owner("demo:1") != "a" {
			t.Errorf("%s: %+v\nwant %+v", step.origin, *s, want)
		}
	}
}

func TestSame(t *testing.T) {
	a := &List{Items: items("x", "y")}
	for _, other := range []List{{Items: items("x")}, {Items: items("y", "x")}, {Items: items("x", "y=new")}, {Items: items("x", "y", "z")}} {
		if a.Same(&other) || other.Same(a) {
			t.Errorf("%v is the same", other)
		}
	}
	if !a.Same(&List{Items: items("x", "y"), TTL: time.Hour}) {
		t.Error("equal lists differ")
	}
}

func TestChanged(t *testing.T) {
	r := newRig(t, nil, "a")
	version := r.Snapshot().Version
	one, two := r.Changed(version), r.Changed(version)
	r.SetStatus("a", Status{State: "CONNECTED"})
	select {
	case <-one:
		t.Fatal("the status is no change")
	default:
	}
	r.SetList("a", Tools, List{Items: items("x")})
	<-one
	<-two
	<-r.Changed(version) // it has changed meanwhile
	select {
	case <-r.Changed(r.Snapshot().Version):
		t.Error("a change without a change")
	default:
	}
}

// doubleStore records what is saved. It stands for a store that fails, which a real one does at no will.
type doubleStore struct {
	mu      sync.Mutex
	fails   error
	saved   []Change
	closed  bool
	entered chan struct{} // if not nil, Save reports here, and waits for leave
	leave   chan struct{}
	stored  Stored
	loading error
}

func (d *doubleStore) Load(context.Context) (Stored, error) {
	if d.stored.Owners == nil {
		d.stored.Owners = map[string]string{}
	}
	return d.stored, d.loading
}

func (d *doubleStore) Save(_ context.Context, changes []Change) error {
	if d.entered != nil {
		d.entered <- struct{}{}
		<-d.leave
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fails != nil {
		return d.fails
	}
	d.saved = append(d.saved, changes...)
	return nil
}

func (d *doubleStore) Close() error { d.closed = true; return nil }

func (d *doubleStore) setFails(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fails = err
}

func (d *doubleStore) take() []Change {
	d.mu.Lock()
	defer d.mu.Unlock()
	saved := d.saved
	d.saved = nil
	return saved
}

func TestOpenLoads(t *testing.T) {
	broken := errors.New("broken")
	if _, err := Open(t.Context(), Options{Store: &doubleStore{loading: broken}}); !errors.Is(err, broken) {
		t.Errorf("error %v, want %v", err, broken)
	}
	store := &doubleStore{stored: Stored{Servers: []*Server{{ID: "2", Name: "b"}, {ID: "1", Name: "a"}}, Owners: map[string]string{"demo:1": "b"}}}
	r := newRig(t, store, "a", "b")
	if s := r.Snapshot(); s.Server("a").ID != "1" || s.Server("b").ID != "2" || s.Owner("demo:1") != "b" || s.Version == 0 {
		t.Errorf("servers %v, owner %q, version %d", s.Servers, s.Owner("demo:1"), s.Version)
	}
}

// What changes while the store is busy is stored as one change, and a failure is no loss.
func TestWriter(t *testing.T) {
	store := &doubleStore{}
	var failures []error
	c, err := Open(t.Context(), Options{Store: store, Failed: func(err error) { failures = append(failures, err) }})
	if err != nil {
		t.Fatal(err)
	}
	c.Keep(map[string]Kept{"a": {Transport: "STDIO"}})
	if err := c.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if saved := store.take(); len(saved) != 1 || saved[0].Parts != Head || saved[0].Server.Name != "a" || saved[0].Removed {
		t.Errorf("saved %v", saved)
	}
	full := errors.New("the disk is full")
	store.setFails(full)
	c.SetList("a", Resources, List{Items: items("demo:1")})
	if err := c.Flush(t.Context()); !errors.Is(err, full) {
		t.Errorf("error %v, want %v", err, full)
	}
	store.setFails(nil)
	c.SetStatus("a", Status{State: "ERROR"})
	c.SetList("a", Resources, List{Items: items("demo:1", "demo:2")})
	if err := c.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	var parts Parts
	var owned []string
	saved := store.take()
	for _, change := range saved {
		parts |= change.Parts
		owned = append(owned, change.Owned...)
	}
	if last := saved[len(saved)-1].Server; parts != Health|1<<Resources || !slices.Equal(owned, []string{"demo:1", "demo:2"}) || len(last.Lists[Resources].Items) != 2 {
		t.Errorf("saved parts %b, URIs %v, %v", parts, owned, last)
	}
	store.setFails(full)
	if err := c.Flush(t.Context()); err != nil {
		t.Errorf("although nothing waits: %v", err)
	}
	store.setFails(nil)
	c.Keep(nil)
	if err := c.Close(); err != nil || !store.closed {
		t.Errorf("closed %v, error %v", store.closed, err)
	}
	if saved := store.take(); len(saved) != 1 || !saved[0].Removed {
		t.Errorf("saved at the end: %v", saved)
	}
	if len(failures) == 0 || !errors.Is(failures[0], full) {
		t.Errorf("failures %v", failures)
	}
}

// The items of a list are stored when they change, and not with every reading: after a restart all servers are read at once.
func TestListsThatStayAreNotStored(t *testing.T) {
	store := &doubleStore{}
	r := newRig(t, store, "a")
	save := func(l List) (parts Parts) {
		r.SetList("a", Tools, l)
		if err := r.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, change := range store.take() {
			parts |= change.Parts
		}
		return parts
	}
	if got := save(List{Items: items("x")}); got&(1<<Tools) == 0 {
		t.Errorf("of the first list %b is stored", got)
	}
	version := r.Snapshot().Version
	if got := save(List{Items: items("x"), TTL: time.Second, Private: true}); got != Health {
		t.Errorf("of a list that may be cached otherwise %b is stored", got)
	}
	if r.Snapshot().Version == version {
		t.Error("readers do not learn how the list may be cached")
	}
	if got := save(List{Items: items("x=new"), TTL: time.Second, Private: true}); got != 1<<Tools {
		t.Errorf("of a list that has changed %b is stored", got)
	}
}

func TestChangesThatWaitAreOne(t *testing.T) {
	store := &doubleStore{entered: make(chan struct{}), leave: make(chan struct{})}
	r := newRig(t, store, "a", "b")
	<-store.entered
	r.SetList("a", Tools, List{Items: items("x")})
	r.SetList("a", Prompts, List{Items: items("p")})
	r.SetList("b", Tools, List{Items: items("y")})
	r.SetList("a", Tools, List{Items: items("x", "z")})
	store.leave <- struct{}{}
	first := r.take(store)
	store.leave <- struct{}{}
	if err := flushed(r, store); err != nil {
		t.Fatal(err)
	}
	second := store.take()
	if len(first) == 0 || len(second) != 2 || second[0].Parts != 1<<Tools|1<<Prompts || len(second[0].Server.Lists[Tools].Items) != 2 || second[1].Server.Name != "b" {
		t.Errorf("saved first %v, then %v", first, second)
	}
	store.entered = nil
}

// take returns what was saved once the next Save has begun.
func (r *rig) take(store *doubleStore) []Change {
	<-store.entered
	return store.take()
}

// flushed waits until the writer rests, letting each Save go on.
func flushed(r *rig, store *doubleStore) error {
	done := make(chan error, 1)
	go func() { done <- r.Flush(r.t.Context()) }()
	for {
		select {
		case <-store.entered:
			store.leave <- struct{}{}
		case err := <-done:
			return err
		}
	}
}

func TestFlushEndsWithItsContext(t *testing.T) {
	store := &doubleStore{entered: make(chan struct{}), leave: make(chan struct{})}
	r := newRig(t, store, "a")
	<-store.entered
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Flush(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	store.leave <- struct{}{}
	if err := flushed(r, store); err != nil {
		t.Error(err)
	}
	store.entered = nil
}

func TestMemoryOnly(t *testing.T) {
	r := newRig(t, nil, "a")
	if err := r.Flush(t.Context()); err != nil {
		t.Error(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// What could not be stored is stored again after a time, without a further change.
func TestWriterTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &doubleStore{}
		store.setFails(errors.New("away"))
		failures := 0
		c, err := Open(t.Context(), Options{Store: store, Failed: func(error) { failures++ }})
		if err != nil {
			t.Fatal(err)
		}
		c.Keep(map[string]Kept{"a": {Transport: "STDIO"}})
		synctest.Wait()
		time.Sleep(saveAgain + time.Second)
		synctest.Wait()
		store.setFails(nil)
		if saved := store.take(); len(saved) != 0 {
			t.Errorf("saved %v while the store failed", saved)
		}
		time.Sleep(saveAgain)
		synctest.Wait()
		if saved := store.take(); len(saved) != 1 || saved[0].Server.Name != "a" {
			t.Errorf("saved %v", saved)
		}
		time.Sleep(10 * saveAgain)
		synctest.Wait()
		if saved := store.take(); len(saved) != 0 {
			t.Errorf("saved %v again", saved)
		}
		if failures != 1 {
			t.Errorf("told %d times of one failure", failures)
		}
		c.Restore()
		synctest.Wait()
		if saved := store.take(); len(saved) != 1 || saved[0].Parts != Health {
			t.Errorf("restored %v", saved)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestConfiguredID(t *testing.T) {
	a, b := ConfiguredID("a"), ConfiguredID("b")
	if a == b || a != ConfiguredID("a") || !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(a) {
		t.Errorf("ids %s, %s", a, b)
	}
}
