package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"dragoman/proxy/wire"
)

// A merge adds no translation: the interactive scenes about one server are played once more with that server as one of three that are served
// as one.
func TestTranscriptsMerged(t *testing.T) {
	for _, name := range []string{"questions_park", "questions_relay", "questions_upgrade", "visits"} {
		file := filepath.Join("conformance", "transcripts", name+".txt")
		t.Run(name, func(t *testing.T) { playScenes(t, file, newMergedClient) })
	}
}

// A call through call_tool loses nothing of a direct one: the same scenes once more, in which each call of a tool is one of call_tool.
func TestTranscriptsThroughCallTool(t *testing.T) {
	for _, name := range []string{"questions_park", "questions_relay", "questions_upgrade", "visits"} {
		file := filepath.Join("conformance", "transcripts", name+".txt")
		t.Run(name, func(t *testing.T) {
			playScenes(t, file, func(scene []section) *mergedClient {
				m := newMergedClient(scene)
				if m != nil && !slices.ContainsFunc(scene, func(s section) bool { return strings.Contains(fmt.Sprint(s), "tools/call") }) {
					return nil
				}
				if m != nil {
					m.through = true
				}
				return m
			})
		})
	}
}

// throughCallTool returns a call of a tool as one of call_tool; anything else as it is.
func throughCallTool(body string) string {
	m, err := wire.Scan([]byte(body))
	if err != nil || !m.Is("tools/call") || !m.Name.Present() {
		return body
	}
	arguments := []wire.Change{{Key: "name", Value: m.Of(m.Name)}}
	if m.Arguments.Present() {
		arguments = append(arguments, wire.Change{Key: "arguments", Value: m.Of(m.Arguments)})
	}
	m.EditObject(m.Params, []wire.Change{{Key: "name", Value: []byte(`"call_tool"`)}, {Key: "arguments", Value: wire.Object(arguments)}})
	return string(m.Append(nil))
}

// mergedClient is the client of a scene whose server is one of three. Its messages have the ids of the scene.
type mergedClient struct {
	testClient
	said  []string          // the ids of questions that the server has asked and the client has not heard
	ids   map[string]string // those of the client's questions, by the server's
	lists map[string]string // what the scene's server lists, by method
	// through means that tools are called through call_tool.
	through bool
}

var (
	toolPattern     = regexp.MustCompile(`"method":"tools/call","params":\{"name":("[^"]+")`)
	promptPattern   = regexp.MustCompile(`(?:"method":"prompts/get","params":\{|"type":"ref/prompt",)"name":("[^"]+")`)
	resourcePattern = regexp.MustCompile(`"method":"resources/read","params":\{"uri":("[^"]+")`)
)

// newMergedClient returns the client of a scene; nil if the scene is about lists, which a merge reads itself.
func newMergedClient(scene []section) *mergedClient {
	m := &mergedClient{ids: map[string]string{}, lists: map[string]string{}}
	if slices.ContainsFunc(scene, func(s section) bool {
		return slices.Contains(s.words, "tools/list") || slices.Contains(s.words, "prompts/list")
	}) {
		return nil
	}
	text := fmt.Sprint(scene)
	m.lists["tools/list"] = `"tools":[` + entries(text, toolPattern, `{"name":%s,"inputSchema":{"type":"object"}}`) + `]`
	m.lists["prompts/list"] = `"prompts":[` + entries(text, promptPattern, `{"name":%s}`) + `]`
	m.lists["resources/list"] = `"resources":[` + entries(text, resourcePattern, `{"uri":%s,"name":"n"}`) + `]`
	return m
}

// entries returns a list of what a text names.
func entries(text string, named *regexp.Regexp, format string) string {
	var all []string
	for _, m := range named.FindAllStringSubmatch(text, -1) {
		if one := fmt.Sprintf(format, m[1]); !slices.Contains(all, one) {
			all = append(all, one)
		}
	}
	return strings.Join(all, ",")
}

// configure returns a configuration of the scene's server and two others.
func (m *mergedClient) configure(t *testing.T, scene *upstream, toml string) string {
	others := ""
	for method, list := range m.lists {
		scene.answerList(method, list)
	}
	for name, kind := range map[string]string{"before": "legacy", "later": "modern"} {
		other := newUpstream(t, kind)
		other.answerList("tools/list", fmt.Sprintf(`"tools":[{"name":"%s_say","inputSchema":{"type":"object"}}]`, name))
		others += fmt.Sprintf("[upstreams.%s]\nurl = %q\n", name, other.url)
	}
	if m.through {
		toml = "classification.mode = \"off\"\ncontext.mode = \"search\"\n" + toml
	}
	return "names.prefix = \"conflict\"\ncatalogue.path = \"memory\"\n" + toml + others
}

// answerList scripts a list, without braces.
func (u *upstream) answerList(method, list string) {
	if !u.legacy {
		list += `,"resultType":"complete","ttlMs":0,"cacheScope":"private"`
	}
	u.on(method, func(c *call) { c.result("{" + list + "}") })
}

// asked notes the ids of the questions among lines of the server.
func (m *mergedClient) asked(lines string) {
	for line := range strings.Lines(lines) {
		if is := parsed(line); is.Method != "" && is.Method != "ping" && is.ID != nil {
			m.said = append(m.said, string(is.ID))
		}
	}
}

// parsed returns the parts of a message; none if it is unfinished.
func parsed(text string) (m sentMessage) {
	_ = json.Unmarshal([]byte(text), &m)
	return m
}

// withID returns a message with another id.
func withID(text, id, other string) string {
	return regexp.MustCompile(`("(?:id|requestId)": ?)`+regexp.QuoteMeta(id)+`([,}])`).ReplaceAllString(text, "${1}"+strings.ReplaceAll(other, "$", "$$")+"${2}")
}

// open opens the session and, in that, the client's session at the scene's server.
func (m *mergedClient) open(version, caps string) {
	m.testClient.open(version, caps)
	m.testClient.send("sit", `{"jsonrpc":"2.0","id":"sit","method":"sit/down","params":{"_meta":{"io.dragoman/server":"default"}}}`)
	m.testClient.receives("sit")
}

// send gives an answer the id of the client's question.
func (m *mergedClient) send(label, body string) {
	if is := parsed(body); is.Method == "" && m.ids[string(is.ID)] != "" {
		body = withID(body, string(is.ID), m.ids[string(is.ID)])
	}
	if m.through {
		body = throughCallTool(body)
	}
	m.testClient.send(label, body)
}

// receives gives a question, or its withdrawal, the id that the server has given it. What tells servers apart is left out.
func (m *mergedClient) receives(label string) string {
	got := strings.NewReplacer(`"default/`, `"`, `,"logger":"default"`, "").Replace(strings.TrimSpace(m.testClient.receives(label)))
	is := parsed(got)
	if is.Method != "" && is.ID != nil && len(m.said) > 0 {
		m.ids[m.said[0]], m.said = string(is.ID), m.said[1:]
	}
	for own, id := range m.ids {
		if back := withID(got, id, own); is.Method != "" && back != got {
			return back
		}
	}
	return got
}
