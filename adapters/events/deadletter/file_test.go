package deadletter

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goccy/go-json"

	"dragoman/adapters/events"
	"dragoman/internal/testkit"
)

// reports records what a File reports.
type reports struct {
	mu   sync.Mutex
	all  []error
	lost uint64
}

func (r *reports) failed(err error, lost uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all, r.lost = append(r.all, err), r.lost+lost
}

func opened(t *testing.T, opt Options) (*File, *reports) {
	t.Helper()
	r := &reports{}
	if opt.Failed = r.failed; opt.Queue == 0 {
		opt.Queue = 1 << 20
	}
	if opt.Bytes == 0 {
		opt.Bytes = 1 << 20
	}
	f, err := Open(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f, r
}

func letter(id, data string) *events.Letter {
	return &events.Letter{Time: time.Unix(1_800_000_000, 5e6), Sink: "hook", Reason: "the receiver answered HTTP 400 Bad Request", Event: &events.Event{ID: id, Source: "urn:x", SpecVersion: "1.0",
		Type: "t", Time: time.Unix(1_800_000_000, 0).UTC(), Data: []byte(data)}}
}

// ids returns the ids of the events in a file.
func ids(t *testing.T, path string) (all []string) {
	t.Helper()
	for line := range strings.Lines(testkit.ReadText(t, path)) {
		var l struct {
			Time, Sink, Reason string
			Event              json.RawMessage
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		e, err := events.Parse(l.Event)
		if err != nil || l.Sink != "hook" || l.Time != "2027-01-15T08:00:00.005Z" || !strings.Contains(l.Reason, "HTTP 400") {
			t.Fatalf("%v: %s", err, line)
		}
		all = append(all, e.ID)
	}
	return all
}

// Letters are lines of a file that is nobody else's to read, and survive a restart, even if the last line was cut.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dead.jsonl")
	f, _ := opened(t, Options{Path: path})
	if !f.Put(t.Context(), letter("1", "{\n\"a\":\r\n\"b\\n\"}")) {
		t.Fatal("it is not taken")
	}
	f.Close()
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = file.WriteString(`{"sink":"hook"`)
		err = errors.Join(err, file.Chmod(0o644), file.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	f, r := opened(t, Options{Path: path})
	f.Put(t.Context(), letter("2", "{}"))
	f.Close()
	if f.Put(t.Context(), letter("3", "{}")) || len(r.all) != 1 {
		t.Error("a letter after the end is taken")
	}
	text := testkit.ReadText(t, path)
	testkit.PutFile(t, path, strings.Replace(text, "{\"sink\":\"hook\"\n", "", 1))
	if got := strings.Join(ids(t, path), " "); got != "1 2" {
		t.Errorf("%s", got)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if s := f.Stats(); s != (Stats{Written: 1, Failed: 1}) {
		t.Errorf("%+v", s)
	}
}

// The files are bounded: the older of the two gives way, and what was in it is counted.
func TestRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dead.jsonl")
	one := len(appendLetter(nil, letter("100", "{}")))
	f, _ := opened(t, Options{Path: path, Bytes: 2 * 10 * one})
	for n := range 57 {
		f.Put(t.Context(), letter(string(rune('a'+n/26))+string(rune('a'+n%26))+"x", "{}"))
	}
	f.Close()
	kept := append(ids(t, path+".1"), ids(t, path)...)
	if len(kept) != 17 || kept[0] != "box" || kept[16] != "cex" {
		t.Errorf("%d letters: %v", len(kept), kept)
	}
	if s := f.Stats(); s.Written != 57 || s.Evicted != 40 || s.Failed != 0 {
		t.Errorf("%+v", s)
	}
}

// A letter is refused when the queue is full, or waits for room.
func TestQueue(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dead.jsonl")
	r := &reports{}
	f := &File{opt: Options{Path: path, Bytes: 1 << 20, Queue: 10, Failed: r.failed}, wake: make(chan struct{}, 1), ended: make(chan struct{})}
	if err := f.open(); err != nil {
		t.Fatal(err)
	}
	now, cancel := context.WithCancel(t.Context())
	cancel()
	if !f.Put(now, letter("1", "{}")) || f.Put(now, letter("2", "{}")) { // nobody writes
		t.Error("the queue has no bound")
	}
	waited := make(chan bool)
	go func() { waited <- f.Put(t.Context(), letter("3", "{}")) }()
	go f.run()
	if !testkit.Receive(t, "room", waited) {
		t.Error("it is not taken")
	}
	f.Close()
	if got := strings.Join(ids(t, path), " "); got != "1 3" {
		t.Errorf("%s", got)
	}
}

// Without a file letters are counted and reported, once a minute.
func TestNoFile(t *testing.T) {
	f, r := opened(t, Options{})
	for range 3 {
		if !f.Put(t.Context(), letter("1", "{}")) {
			t.Error("it is refused")
		}
	}
	if s := f.Stats(); s != (Stats{Dropped: 3}) || len(r.all) != 1 || r.lost != 1 {
		t.Errorf("%+v, %v", s, r.all)
	}
}

// A file that cannot be written loses letters, which is counted and reported, and has only whole lines.
func TestWriteFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dead.jsonl")
	f, r := opened(t, Options{Path: path})
	f.Put(t.Context(), letter("1", "{}"))
	testkit.Eventually(t, "it is written", func() bool { return f.Stats().Written == 1 })
	_ = f.file.Close() // the writer waits
	f.Put(t.Context(), letter("2", "{}"))
	testkit.Eventually(t, "it is lost", func() bool { return f.Stats().Failed == 1 })
	f.Close()
	if len(r.all) != 1 || r.lost != 1 || !errors.Is(r.all[0], fs.ErrClosed) || len(ids(t, path)) != 1 {
		t.Errorf("%v, %d lost", r.all, r.lost)
	}
}

// Only a regular file is used.
func TestOtherFiles(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := os.Symlink(filepath.Join(dir, "target"), link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, link, filepath.Join(dir, "none", "file")} {
		if _, err := Open(Options{Path: path}); err == nil || !strings.HasPrefix(err.Error(), "events.dead_letter: ") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// A letter is one line whatever is in it.
func FuzzLetter(f *testing.F) {
	f.Add("reason", `{"a":"b"}`)
	f.Add("line\nfeed\u202e", "[1,\n2]")
	f.Fuzz(func(t *testing.T, reason, data string) {
		l := letter("1", data)
		if l.Reason = reason; l.Event.Validate() != nil {
			return
		}
		line := appendLetter(nil, l)
		if bytes.IndexByte(line, '\n') != len(line)-1 || !json.Valid(line) {
			t.Fatalf("%q", line)
		}
	})
}
