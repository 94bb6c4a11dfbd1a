package merge

import (
	"fmt"
	"strings"
	"testing"

	"dragoman/proxy"
	"dragoman/proxy/session"
	"dragoman/proxy/wire"
)

// toServer is the _meta of a request that names its server.
func toServer(server string) string { return `"_meta":{"v/x":1,"io.dragoman/server":` + server + `}` }

// A request of any kind may name its server, which gets neither the name nor loses other members of _meta.
func TestRequestsNameTheirServer(t *testing.T) {
	for _, modern := range []bool{true, false} {
		for _, era := range []string{"modern", "legacy"} {
			t.Run(fmt.Sprintf("%s client at modern %v", era, modern), func(t *testing.T) {
				var servers []*script
				for range 2 {
					s := newScript(modern, `{"tools":{},"prompts":{},"resources":{"subscribe":true},"completions":{}}`)
					s.lists(`{"name":"t","inputSchema":{"type":"object"}}`, `{"uri":"demo://x","name":"x"}`, `{"uriTemplate":"demo://t/{id}","name":"t"}`)
					s.set("prompts/list", `{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"complete","prompts":[{"name":"p"}],"ttlMs":0,"cacheScope":"private"}}`)
					for _, method := range []string{"tools/call", "prompts/get", "resources/read", "completion/complete", "resources/subscribe"} {
						s.set(method, `{"jsonrpc":"2.0","id":$ID,"result":{"_meta":{"v/y":2}}}`)
					}
					servers = append(servers, s)
				}
				r := scriptRig(t, Options{}, servers...)
				call := func(method, params string) reply { return r.as("", `{}`, method, params) }
				if era == "legacy" {
					call = r.newPeer(false).call
				}
				for _, test := range []struct{ method, params, about string }{
					{"tools/call", `"arguments":{},"name":"t"`, `"name":"t"`}, {"prompts/get", `"name":"p"`, `"name":"p"`},
					{"resources/read", `"uri":"demo://x"`, `"uri":"demo://x"`}, {"completion/complete", `"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""}`, `"name":"p"`},
					{"completion/complete", `"ref":{"type":"ref/resource","uri":"demo://t/{id}"},"argument":{"name":"id","value":""}`, `"uri":"demo://t/{id}"`},
				} {
					for i, name := range []string{"a", "b"} {
						got := call(test.method, test.params+","+toServer(`"`+name+`"`))
						if got.err != nil || got.at("_meta", "v/y") != "2" {
							t.Fatalf("%s: %v", test.method, got)
						}
						heard := servers[i].hears(t, test.method)
						has(t, heard, test.about, `"v/x":1`)
						if strings.Contains(heard, "io.dragoman") {
							t.Errorf("%s: the server received %s", test.method, heard)
						}
					}
					for server, want := range map[string]string{`"c"`: `no server "c" is behind this endpoint`, `7`: `params._meta["io.dragoman/server"] must be a string`, `""`: `no server "" is behind this endpoint`} {
						if got := call(test.method, test.params+","+toServer(server)); got.err == nil || !strings.Contains(got.err.Error(), want) {
							t.Errorf("%s to %s: %v", test.method, server, got)
						}
					}
				}
				quiet(t, servers...)
			})
		}
	}
}

// A method of an extension goes to the member that is named, or to the only one that has more than the protocol has.
func TestMethodsBeyondTheProtocol(t *testing.T) {
	for _, modern := range []bool{true, false} {
		for _, era := range []string{"modern", "legacy"} {
			t.Run(fmt.Sprintf("%s client at modern %v", era, modern), func(t *testing.T) {
				beyond := func(caps string) *script {
					s := newScript(modern, caps)
					s.set("skills/get", `{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"complete","contents":[{"uri":$URI}],"_meta":{"v/y":2}}}`)
					return s
				}
				plain := beyond(`{"tools":{},"extensions":{"io.modelcontextprotocol/ui":{}}}`)
				skilled, other := beyond(`{"resources":{},"extensions":{"v/skills":{"a":1}}}`), beyond(`{"new":{}}`)
				for _, s := range []*script{plain, skilled} {
					s.lists("", `{"uri":"demo://x","name":"x"}`, "")
				}
				r := scriptRig(t, Options{}, plain, skilled)
				client := func(r *rig) func(method, params string) reply {
					if era == "legacy" {
						return r.newPeer(false).call
					}
					return func(method, params string) reply { return r.as("", `{}`, method, params) }
				}
				call := client(r)
				got := call("skills/get", `"uri":"demo://x","_meta":{"v/x":1}`)
				has(t, skilled.hears(t, "skills/get"), `"uri":"demo://x"`, `"v/x":1`)
				has(t, got.raw, `"contents":[{"uri":"demo://x"}]`, `"v/y":2`)
				got = call("skills/get", `"uri":"demo://x",`+toServer(`"a"`))
				has(t, got.raw, `"contents":[{"uri":"demo://x"}]`)
				if heard := plain.hears(t, "skills/get"); strings.Contains(heard, "io.dragoman") {
					t.Errorf("the server received %s", heard)
				}
				for server, want := range map[string]string{`"c"`: `no server "c"`, `7`: "must be a string"} {
					if got := call("skills/get", toServer(server)); got.err == nil || !strings.Contains(got.err.Error(), want) {
						t.Errorf("to %s: %v", server, got)
					}
				}
				call = client(scriptRig(t, Options{}, plain, skilled, other))
				for _, method := range []string{"skills/get", "roots/list", "tasks/new"} {
					if got := call(method, ""); nameOf(got.err) != "method_not_found" || !strings.Contains(got.err.Error(), "method "+method+" is not offered for several servers at once") {
						t.Errorf("%s where two may have it: %v", method, got)
					}
				}
				for _, method := range []string{"tasks/list", "tasks/new"} {
					if got := call(method, toServer(`"a"`)); nameOf(got.err) != "method_not_found" || !strings.Contains(got.err.Error(), "method "+method+" is not offered for several servers at once") {
						t.Errorf("%s of a server that is named: %v", method, got)
					}
				}
				call("skills/get", toServer(`"c"`))
				has(t, other.hears(t, "skills/get"), `"method":"skills/get"`)
				quiet(t, plain, skilled, other)
			})
		}
	}
}

// A notification of an extension takes the same way, to a member at which the client has a session.
func TestNotificationsBeyondTheProtocol(t *testing.T) {
	servers := []*script{newScript(false, `{"tools":{}}`), newScript(false, `{"tools":{},"new":true}`)}
	r := scriptRig(t, Options{}, servers...)
	p := r.newPeer(true)
	note := func(method, params string) {
		p.notify(`{"jsonrpc":"2.0","method":"notifications/` + method + `","params":{` + params + `}}`)
	}
	note("early", "")
	for i, name := range []string{"a", "b"} {
		p.call("tools/call", `"name":"`+name+`.t","arguments":{}`)
		servers[i].hears(t, "tools/call")
	}
	note("new", `"n":1`)
	has(t, servers[1].hears(t, "notifications/new"), `"n":1`)
	note("new", `"n":2,`+toServer(`"a"`))
	if heard := servers[0].hears(t, "notifications/new"); strings.Contains(heard, "io.dragoman") || !strings.Contains(heard, `"n":2`) {
		t.Errorf("the server received %s", heard)
	}
	note("new", toServer(`"c"`))
	for i, s := range servers {
		s.say(t, `{"jsonrpc":"2.0","method":"notifications/new","params":{"of":`+fmt.Sprint(i)+`,"_meta":{"v/x":1}}}`)
		if got, want := <-p.pushed, `{"jsonrpc":"2.0","method":"notifications/new","params":{"of":`+fmt.Sprint(i)+`,"_meta":{"v/x":1}}}`; got != want {
			t.Errorf("pushed %s", got)
		}
		s.say(t, `{"jsonrpc":"2.0","id":1,"method":"new/ask","params":{"of":`+fmt.Sprint(i)+`}}`)
		asked, err := wire.Scan([]byte(<-p.pushed))
		if err != nil || !asked.Is("new/ask") {
			t.Fatalf("pushed %s", asked.Raw)
		}
		has(t, s.hears(t, ""), `"error":{"code":-32601`) // of Dragoman's own session
		p.notify(`{"jsonrpc":"2.0","id":` + string(asked.Of(asked.ID)) + `,"result":{"_meta":{"v/x":1}}}`)
		if got := s.hears(t, ""); got != `{"jsonrpc":"2.0","id":1,"result":{"_meta":{"v/x":1}}}` {
			t.Errorf("the server received %s", got)
		}
	}
	quiet(t, servers...)
}

// What policies of the endpoint have written into a request counts.
func TestRequestsEditedBefore(t *testing.T) {
	servers := []*script{newScript(true, `{"tools":{}}`), newScript(false, `{"tools":{}}`)}
	r := scriptRig(t, Options{}, servers...)
	p := r.newPeer(false)
	edit := func(ex *proxy.Exchange) (proxy.Replies, error) {
		if m := &ex.Msg; m.Is("tools/call") {
			m.Replace(m.Name, []byte(`"`+strings.TrimPrefix(string(m.Text(m.Name)), "x-")+`"`))
			m.EditParams([]wire.Change{{Key: "arguments", Value: []byte(`{"n":1}`)}})
		}
		return r.Do(ex)
	}
	for i, name := range []string{"x-a.t", "x-b.t"} {
		drain(edit(r.exchangeAs("", `{}`, "tools/call", `"name":"`+name+`"`)))
		has(t, servers[i].hears(t, "tools/call"), `"name":"t"`, `"arguments":{"n":1}`)
		m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":99,"method":"tools/call","params":{"name":"` + name + `"}}`))
		if err != nil {
			t.Fatal(err)
		}
		drain(session.Run(p.session, &proxy.Exchange{Msg: m}, edit))
		has(t, servers[i].hears(t, "tools/call"), `"name":"t"`, `"arguments":{"n":1}`)
	}
}

// Two members may number their questions alike, those that are answered on a page included.
func TestIDsOfElicitations(t *testing.T) {
	var servers []*script
	for range 2 {
		s := newScript(false, `{"tools":{}}`)
		s.set("tools/call", `{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"mode":"url","elicitationId":"e/1","url":"https://x.example","message":"?"}}`, "wait",
			`{"jsonrpc":"2.0","id":$ID,"error":{"code":-32042,"message":"visit","data":{"elicitations":[{"mode":"url","elicitationId":"e/1","url":"https://x.example","message":"?"},{"mode":"url","elicitationId":"e/2","url":"https://y.example","message":"?"}]}}}`)
		servers = append(servers, s)
	}
	r := scriptRig(t, Options{}, servers...)
	p := r.newPeer(true)
	for i, name := range []string{"a", "b"} {
		replies, err := p.begin("tools/call", `"name":"`+name+`.t","arguments":{}`)
		if err != nil {
			t.Fatal(err)
		}
		next := nextIn(t, replies)
		question := next()
		has(t, question, `"elicitationId":"`+name+`/e/1"`)
		asked, _ := wire.Scan([]byte(question))
		servers[i].say(t, `{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"e/1"}}`)
		if got, want := <-p.pushed, `{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"`+name+`/e/1"}}`; got != want {
			t.Errorf("pushed %s", got)
		}
		p.notify(`{"jsonrpc":"2.0","id":` + string(asked.Of(asked.ID)) + `,"result":{"action":"accept"}}`)
		has(t, next(), `"elicitationId":"`+name+`/e/1"`, `"elicitationId":"`+name+`/e/2"`)
		_ = replies.Close()
	}
}
