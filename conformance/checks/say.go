package checks

import (
	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

// Faces in groups, as checks are for them.
var (
	modernHTTP  = []peer.Face{peer.ModernHTTP}
	modernFaces = []peer.Face{peer.ModernHTTP, peer.ModernStdio}
)

// modernHead is the head of a modern request that is right; more sets or drops fields.
func modernHead(method string, more ...peer.Field) peer.Fields {
	return peer.Fields{{Name: "Content-Type", Value: "application/json"}, {Name: "Accept", Value: "application/json, text/event-stream"},
		{Name: "MCP-Protocol-Version", Value: peer.R2607}, {Name: "Mcp-Method", Value: method}}.With(more...)
}

// modernBody is a modern request that is right. params are members beside _meta; change may alter _meta.
func modernBody(id, method string, params peer.Object, change func(meta peer.Object)) string {
	meta := peer.Object{peer.MetaVersion: peer.R2607, peer.MetaCapabilities: peer.Object{}, peer.MetaClient: peer.Object{"name": "dragoman-conformance", "version": "1"}}
	if change != nil {
		change(meta)
	}
	all := peer.Object{"_meta": meta}
	for name, value := range params {
		all[name] = value
	}
	return `{"jsonrpc":"2.0","id":` + id + `,"method":` + peer.Encode(method) + `,"params":` + peer.Encode(all) + `}`
}

// answer reads the one message of a response, whether it is a body or the last of a stream; nil: there is none.
func answer(t *suite.Trial, res *peer.Response) *peer.Message {
	var last *peer.Message
	if !res.Streams() {
		text, _ := res.Text()
		if m, err := peer.ReadMessage(text); err == nil {
			last = &m
		}
		return last
	}
	for {
		e, err := res.Next()
		if err != nil {
			return last
		}
		if m, err := peer.ReadMessage(e.Data); err == nil && m.Kind() == peer.IsResponse {
			return &m
		}
	}
}
