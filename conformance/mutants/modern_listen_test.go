package mutants

import (
	"strings"
	"sync"

	"dragoman/conformance/peer"
)

const acknowledged = "notifications/subscriptions/acknowledged"

func modernListenMutants() []mutant {
	notice := func(name, caught, method string, change func(m peer.Message) []string) mutant {
		return mutant{name: name, caught: caught, faces: modern, message: notices(method, change)}
	}
	none := func(peer.Message) []string { return nil }
	tag := func(m peer.Message, change func(meta peer.Object)) []string {
		if meta, ok := m.Params()["_meta"].(peer.Object); ok {
			change(meta)
		}
		return []string{peer.Encode(m.Object)}
	}
	filter := func(name, caught string, change func(filter peer.Object)) mutant {
		return mutant{name: name, caught: caught, faces: modern, request: func(x *exchange) {
			if x.method == "subscriptions/listen" {
				edit(x, func(_, params, _ peer.Object) {
					if f, ok := params["notifications"].(peer.Object); ok {
						change(f)
					}
				})
			}
		}}
	}
	return append(slow(
		filter("tells of all kinds of changes", "subscriptions.only-asked", func(f peer.Object) { f["promptsListChanged"] = true }),
		filter("tells of all resources", "subscriptions.uris", func(f peer.Object) { f["resourceSubscriptions"] = []string{"test://watched-resource"} }),
		mutant{name: "logs to subscriptions", caught: "subscriptions.only-changes", message: notices(acknowledged, func(m peer.Message) []string {
			return []string{m.Raw, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"a call"}}`}
		})}), []mutant{
		notice("does not acknowledge", "subscriptions.acknowledged", acknowledged, none),
		notice("notifies before it acknowledges", "subscriptions.acknowledged", acknowledged, func(m peer.Message) []string {
			return []string{strings.Replace(m.Raw, acknowledged, "notifications/tools/list_changed", 1), m.Raw}
		}),
		notice("does not tag acknowledgements", "subscriptions.tagged", acknowledged, func(m peer.Message) []string {
			return tag(m, func(meta peer.Object) { delete(meta, peer.MetaSubscription) })
		}),
		notice("tags with texts alone", "subscriptions.tagged", acknowledged, func(m peer.Message) []string {
			return tag(m, func(meta peer.Object) {
				meta[peer.MetaSubscription] = strings.Trim(peer.Encode(meta[peer.MetaSubscription]), `"`)
			})
		}),
		notice("does not tag notifications", "subscriptions.tagged", "notifications/tools/list_changed", func(m peer.Message) []string {
			return tag(m, func(meta peer.Object) { delete(meta, peer.MetaSubscription) })
		}),
		notice("acknowledges all that it has", "subscriptions.subset", acknowledged, func(m peer.Message) []string {
			m.Params()["notifications"] = peer.Object{"toolsListChanged": true, "promptsListChanged": true}
			return []string{peer.Encode(m.Object)}
		}),
		notice("honours nothing", "subscriptions.honoured", acknowledged, func(m peer.Message) []string {
			m.Params()["notifications"] = peer.Object{}
			return []string{peer.Encode(m.Object)}
		}),
		{name: "needs no filter", caught: "subscriptions.missing-filter", faces: modern, request: func(x *exchange) {
			if x.method == "subscriptions/listen" {
				gives(x, empty)
			}
		}},
		notice("does not tell that tools have changed", "subscriptions.list-changed", "notifications/tools/list_changed", none),
		notice("tells one subscription alone", "subscriptions.several", "notifications/tools/list_changed", func(m peer.Message) []string {
			if strings.Contains(m.Raw, `"s1"`) {
				return nil
			}
			return []string{m.Raw}
		}),
		notice("does not tell that a resource has changed", "subscriptions.updated", "notifications/resources/updated", none),
		{name: "keeps subscriptions that were cancelled", caught: "subscriptions.cancelled", request: uncancelled},
		broadcaster(),
	}...)
}

// broadcaster sends changes on the streams of requests.
func broadcaster() mutant {
	const change = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
	return mutant{name: "tells everybody of changes", caught: "subscriptions.unasked", faces: modern,
		request: func(x *exchange) {
			if x.Request != nil && asksFor(x, "test_trigger_tool_change") {
				x.reply(200, "text/event-stream", "data: "+change+"\n\ndata: "+`{"jsonrpc":"2.0","id":`+string(x.asked.ID)+`,"result":{"resultType":"complete","content":[]}}`+"\n\n")
			}
		},
		message: func(x *exchange, m peer.Message) []string {
			if !asksFor(x, "test_trigger_tool_change") {
				return []string{m.Raw}
			}
			return []string{change, m.Raw}
		}}
}

func modernStdioMutants() []mutant {
	var slow sync.Map // closed when the slow call was answered
	return []mutant{
		{name: "greets on its output", caught: "modern-stdio.lines", message: func(x *exchange, m peer.Message) []string {
			if x.state.count("lines") == 1 {
				return []string{"Server running on stdio", m.Raw}
			}
			return []string{m.Raw}
		}},
		{name: "writes values that are no messages", caught: "modern-stdio.lines", message: func(_ *exchange, m peer.Message) []string { return []string{"{}", m.Raw} }},
		{name: "answers notifications", caught: "modern-stdio.notification-unanswered", request: func(x *exchange) {
			if x.asked.ID == nil {
				x.reply(0, "", `{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"no"}}`)
			}
		}},
		{name: "serves one request at a time", caught: "modern-stdio.interleaved",
			request: func(x *exchange) {
				if x.method == "tools/call" {
					slow.Store("call", make(chan struct{}))
				} else if c, ok := slow.Load("call"); ok {
					<-c.(chan struct{})
				}
			},
			message: func(x *exchange, m peer.Message) []string {
				if x.method == "tools/call" {
					if c, ok := slow.LoadAndDelete("call"); ok {
						defer close(c.(chan struct{}))
					}
				}
				return []string{m.Raw}
			}},
		{name: "hears nothing after garbage", caught: "modern-stdio.garbage", request: func(x *exchange) {
			if x.asked.Object == nil {
				x.state.count("garbage")
			}
			x.drop = x.state.seen("garbage")
		}},
		{name: "does not end", caught: "modern-stdio.ends", deaf: true},
	}
}
