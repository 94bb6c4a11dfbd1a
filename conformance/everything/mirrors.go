package everything

import (
	"strconv"
	"strings"

	"dragoman/conformance/everything/calls"
	"dragoman/proxy"
)

// mirror is an argument that modern HTTP clients repeat in a header, by the x-mcp-header of the inputSchema.
type mirror struct {
	argument, header string
	integer          bool
}

// checkMirrors compares the Mcp-Param-* headers of a call with its arguments (2026-07-28 streamable HTTP, Server Behavior
// for Custom Headers, SEP-2243). A present argument must be mirrored exactly, an integer by its value. A null or absent
// argument needs no header.
func checkMirrors(q *calls.Query, mirrors []mirror, sent []proxy.Header) *proxy.Error {
	for _, x := range mirrors {
		v, ok := q.Args.Find(x.argument)
		plain := string(v.Of(q.Args.Raw))
		if !ok || plain == "null" {
			continue
		}
		if v.IsString(q.Args.Raw) {
			plain = string(v.Text(q.Args.Raw))
		}
		value, has := "", false
		for _, h := range sent {
			if strings.EqualFold(h.Name, "Mcp-Param-"+x.header) {
				value, has = h.Value, true
			}
		}
		if !has {
			return proxy.Errf(proxy.HeaderMismatch, "header Mcp-Param-%s is missing; it mirrors argument %s", x.header, x.argument)
		}
		if value != plain && !(x.integer && sameNumber(value, plain)) {
			return proxy.Errf(proxy.HeaderMismatch, "header Mcp-Param-%s does not match argument %s", x.header, x.argument)
		}
	}
	return nil
}

func sameNumber(a, b string) bool {
	x, err1 := strconv.ParseFloat(a, 64)
	y, err2 := strconv.ParseFloat(b, 64)
	return err1 == nil && err2 == nil && x == y
}
