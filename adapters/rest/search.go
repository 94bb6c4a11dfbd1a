package rest

import (
	"strconv"

	"dragoman/adapters/merge/metatools"
	"dragoman/adapters/rest/mcpcall"
	"dragoman/proxy"
)

// searchTools serves GET /tools/search: q says in plain words what a tool is to do; limit, server, category and read_only are optional. data is
// the structured result of find_tools.
func (r *request) searchTools() {
	args := r.ctx.QueryArgs()
	err := r.accept("")
	var params mcpcall.Members
	for _, name := range [...]string{"q", "server", "category"} {
		if text := string(args.Peek(name)); text != "" {
			params.AddText(map[string]string{"q": "query", "server": "server", "category": "category"}[name], text)
		}
	}
	for _, name := range [...]string{"limit", "read_only"} {
		text := string(args.Peek(name))
		_, isNumber := strconv.Atoi(text)
		switch {
		case text == "" || err != nil:
		case name == "limit" && isNumber != nil:
			err = wrong("limit", "a number from 1 to "+strconv.Itoa(metatools.MaxLimit))
		case name == "read_only" && text != "true" && text != "false":
			err = wrong("read_only", "true or false")
		default:
			params.Add(name, []byte(text))
		}
	}
	if _, several := r.d.opt.Behind(r.Server); err == nil && !several {
		err = proxy.Errf(proxy.MethodNotFound, `tools are searched where servers are served as one; set merge = "always" to serve a single server so`)
	}
	if err != nil {
		r.refused(metatools.SearchMethod, err)
		return
	}
	r.forward(metatools.SearchMethod, mcpcall.ToolCall{}, params, nil, plainResult)
}
