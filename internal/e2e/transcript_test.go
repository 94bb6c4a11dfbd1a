package e2e

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"dragoman/internal/testkit"
)

// A transcript is a file of conformance/transcripts: prose that names the fault it guards against, then sections.
//
//	-- upstream KIND --             the scripted server; lines of its configuration
//	-- config --                    lines of the proxy's configuration
//	-- answer METHOD [STATUS [TYPE]] --  what the server answers; several are used in turn, the last for all further ones
//	-- open VERSION [CAPABILITIES] --    a legacy client opens a session, $SESSION from now on
//	-- modern METHOD [NAME] --      a modern POST; header lines add, "!Name" takes away; then the body
//	-- legacy --                    a POST in the session
//	-- http VERB PATH --            any request, with no headers but those given
//	-- until VERB PATH --           the same, again and again until the body of the answer is this
//	-- get STATUS [TYPE] --         the answer: header lines, "!Name" for absence; then the whole body
//	-- seen METHOD --               the next message of that method at the server: headers and body as in get
//	-- unseen METHOD --             the server has seen none since the last seen
//	-- nothing --                   the server has seen nothing at all since the last seen
//
// An upstream, or a config before it, begins a new scene. Lines that begin with # are remarks.
// Bodies are compared byte for byte; … stands for anything. $META is a modern envelope, $CURSOR the last
// nextCursor that came, $PORT in a config a port where connections are accepted, and nothing is said.
//
//	-- upstream KIND KIND --        the scene is played with each kind of server
//	-- faces FACE FACE --           and with each kind of client: http, sse, stdio; then it is an interactive scene (interactiveScene.step)
type transcript struct {
	t        *testing.T
	u        *upstream
	r        *rig
	config   string
	upConfig string
	session  string
	last     *response
	cursor   string // the last nextCursor
}

var cursorPattern = regexp.MustCompile(`"nextCursor":"([^"]*)"`)

var sectionHead = regexp.MustCompile(`^-- (.+) --$`)

func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("conformance/transcripts/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { playScenes(t, file, nil) })
	}
}

// playScenes plays the scenes of a file, one after the other. A scene that names several kinds of servers or clients is played with each.
// With merge, scenes for which that returns a client are played with the server as one of three, and one kind of client after the other.
func playScenes(t *testing.T, file string, merge func(scene []section) *mergedClient) {
	for i, scene := range scenes(t, file) {
		if merge != nil && merge(scene) == nil {
			continue
		}
		kinds, faces := []string{}, []string{""}
		for _, s := range scene {
			switch s.words[0] {
			case "upstream":
				kinds = s.words[1:]
			case "faces":
				faces = s.words[1:]
			}
		}
		if len(kinds) == 0 {
			t.Fatalf("%s:%d: the upstream comes first", file, scene[0].line)
		}
		for k, kind := range kinds {
			for f, face := range faces {
				if merge != nil && f != (i+k)%len(faces) {
					continue
				}
				if len(kinds)*len(faces) == 1 && face == "" {
					playScene(t, file, scene, kind, face, nil)
					continue
				}
				t.Run(fmt.Sprintf("%d-%s-%s", i+1, kind, face), func(t *testing.T) {
					t.Parallel()
					var merged *mergedClient
					if merge != nil {
						merged = merge(scene)
					}
					playScene(t, file, scene, kind, face, merged)
				})
			}
		}
	}
}

// scenes parses a file.
func scenes(t *testing.T, file string) (all [][]section) {
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(raw), "\n")
	begun := true
	for i := 0; i < len(lines); {
		m := sectionHead.FindStringSubmatch(lines[i])
		if i++; m == nil {
			continue
		}
		from := i
		for i < len(lines) && !sectionHead.MatchString(lines[i]) {
			i++
		}
		text := slices.DeleteFunc(slices.Clone(lines[from:i]), func(l string) bool { return strings.HasPrefix(l, "#") })
		s := section{from, strings.Fields(m[1]), strings.Join(text, "\n")}
		if begun && slices.Contains([]string{"config", "upstream", "faces"}, s.words[0]) {
			all, begun = append(all, nil), false
		}
		if begun = begun || !s.prologue(); len(all) == 0 {
			t.Fatalf("%s:%d: the upstream comes first", file, from)
		}
		all[len(all)-1] = append(all[len(all)-1], s)
	}
	if len(all) == 0 {
		t.Fatalf("%s has no section", file)
	}
	return all
}

// split splits a section's text into header lines and body.
func split(text string) (headers []string, body string) {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if line == "" || strings.HasPrefix(line, "{") || strings.HasPrefix(line, "[") || strings.HasPrefix(line, "…") {
			return headers, strings.Trim(strings.Join(lines[i:], "\n"), "\n")
		}
		headers = append(headers, line)
	}
	return headers, ""
}

func (p *transcript) expand(s string) string {
	return strings.NewReplacer("$META", modernMeta, "$SESSION", p.session, "$CURSOR", p.cursor).Replace(s)
}

func (p *transcript) play(words []string, text string) bool {
	text = p.expand(text)
	arg := func(i int, or string) string {
		if i < len(words) {
			return words[i]
		}
		return or
	}
	switch words[0] {
	case "config":
		p.config = text
		return true
	case "upstream":
		p.u, p.upConfig = newUpstream(p.t, words[1]), text
		return true
	case "answer":
		p.answer(words[1], arg(2, "200"), arg(3, jsonType), strings.Trim(text, "\n"))
		return true
	}
	if p.r == nil {
		p.r = startRig(p.t, strings.ReplaceAll(p.config, "$PORT", silentPort(p.t))+"\n"+p.u.toml(p.upConfig), true)
		p.u.forget()
	}
	switch words[0] {
	case "open":
		p.session = p.r.open(words[1], arg(2, "{}"))
	case "modern":
		p.send("POST", "/mcp", modernHeaders(words[1], arg(2, "")), text)
	case "legacy":
		p.send("POST", "/mcp", legacyHeaders(p.session), text)
	case "http":
		p.send(words[1], words[2], nil, text)
	case "until":
		p.until(words[1], words[2], strings.Trim(text, "\n"))
	case "get":
		return p.get(words[1], arg(2, ""), text)
	case "seen":
		return p.saw(words[1], text)
	case "unseen", "nothing":
		return p.sawNot(arg(1, ""))
	default:
		p.t.Errorf("unknown section %q", words)
		return false
	}
	return true
}

// until repeats the request until the answer matches.
func (p *transcript) until(verb, path, want string) {
	p.t.Helper()
	testkit.Eventually(p.t, want, func() bool {
		p.last = p.r.must(verb, path, "")
		return matches(want, strings.Trim(p.last.body, "\n"))
	})
}

// silentPort listens and never accepts; the kernel does.
func silentPort(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	return strconv.Itoa(ln.Addr().(*net.TCPAddr).Port)
}

func (p *transcript) answer(method, status, kind, body string) {
	n, _ := strconv.Atoi(status)
	a := func(c *call) { c.raw(n, kind, body+"\n") }
	if kind == "text/event-stream" {
		a = func(c *call) { c.raw(n, kind, body+"\n\n") }
	}
	p.u.mu.Lock()
	defer p.u.mu.Unlock()
	p.u.answers[method] = append(p.u.answers[method], a)
}

func (p *transcript) send(verb, path string, headers []string, text string) {
	p.t.Helper()
	lines, body := split(text)
	for _, line := range lines {
		if name, absent := strings.CutPrefix(line, "!"); absent {
			for i := 0; i < len(headers); i += 2 {
				if strings.EqualFold(headers[i], name) {
					headers = slices.Delete(headers, i, i+2)
					break
				}
			}
			continue
		}
		name, value, _ := strings.Cut(line, ":")
		for i := 0; i < len(headers); i += 2 { // a given line replaces the usual one
			if strings.EqualFold(headers[i], name) {
				headers = slices.Delete(headers, i, i+2)
				break
			}
		}
		headers = append(headers, name, strings.TrimPrefix(value, " "))
	}
	p.last = p.r.must(verb, path, body, headers...)
	if m := cursorPattern.FindStringSubmatch(p.last.body); m != nil {
		p.cursor = m[1]
	}
	if s := p.last.header.Get("Mcp-Session-Id"); s != "" {
		p.session = s
	}
}

// matches compares; … matches anything.
func matches(pattern, got string) bool {
	parts := strings.Split(pattern, "…")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile(`(?s)^` + strings.Join(parts, ".*") + `$`).MatchString(got)
}

func (p *transcript) headers(what string, lines []string, get func(string) (string, bool)) bool {
	ok := true
	for _, line := range lines {
		if name, absent := strings.CutPrefix(line, "!"); absent {
			if v, has := get(name); has {
				p.t.Errorf("%s: header %s is there: %q", what, name, v)
				ok = false
			}
			continue
		}
		name, want, _ := strings.Cut(line, ":")
		want = strings.TrimPrefix(want, " ")
		if v, has := get(name); !has || !matches(want, v) {
			p.t.Errorf("%s: header %s is %q (there: %v), want %q", what, name, v, has, want)
			ok = false
		}
	}
	return ok
}

func lookup(h map[string][]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for k, v := range h {
			if strings.EqualFold(k, name) {
				return strings.Join(v, "|"), true
			}
		}
		return "", false
	}
}

func (p *transcript) get(status, kind, text string) bool {
	p.t.Helper()
	lines, body := split(text)
	ok := p.headers("answer", lines, lookup(p.last.header))
	if strconv.Itoa(p.last.status) != status {
		p.t.Errorf("status %d, want %s", p.last.status, status)
		ok = false
	}
	if got, _, _ := strings.Cut(p.last.header.Get("Content-Type"), ";"); kind != "" && got != kind {
		p.t.Errorf("Content-Type %q, want %q", got, kind)
		ok = false
	}
	if got := strings.Trim(p.last.body, "\n"); !matches(body, got) {
		p.t.Errorf("answer\n  %s\nwant\n  %s", got, body)
		ok = false
	}
	return ok
}

func (p *transcript) saw(method, text string) bool {
	p.t.Helper()
	lines, body := split(text)
	var s *seen
	for end := time.Now().Add(5 * time.Second); s == nil && time.Now().Before(end); {
		p.u.mu.Lock()
		for i := p.u.next; i < len(p.u.seen) && s == nil; i++ {
			if p.u.seen[i].method == method {
				s, p.u.next = p.u.seen[i], i+1
			}
		}
		p.u.mu.Unlock()
		if s == nil {
			time.Sleep(2 * time.Millisecond) // polled
		}
	}
	if s == nil {
		p.t.Errorf("the server never saw %s", method)
		return false
	}
	ok := p.headers("seen "+method, lines, lookup(s.header))
	if body != "" && !matches(body, s.body) {
		p.t.Errorf("the server saw\n  %s\nwant\n  %s", s.body, body)
		ok = false
	}
	return ok
}

func (p *transcript) sawNot(method string) bool {
	p.t.Helper()
	p.u.mu.Lock()
	defer p.u.mu.Unlock()
	for _, s := range p.u.seen[p.u.next:] {
		if method == "" || s.method == method {
			p.t.Errorf("the server saw %s %s", s.method, s.body)
			return false
		}
	}
	return true
}
