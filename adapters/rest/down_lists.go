package rest

import "dragoman/proxy/wire"

// resources serves GET /resources: all resources, and the templates of more.
func (r *request) resources() {
	p := members{}
	for _, list := range []struct{ method, key string }{{"resources/list", "resources"}, {"resources/templates/list", "resourceTemplates"}} {
		all, err := r.gather(list.method, list.key)
		if err != nil {
			r.fail(err)
			return
		}
		p.add(list.key, all)
	}
	r.give(braced(p))
}

// prompts serves GET /prompts.
func (r *request) prompts() {
	all, err := r.gather("prompts/list", "prompts")
	if err != nil {
		r.fail(err)
		return
	}
	p := members{}
	p.add("prompts", all)
	r.give(braced(p))
}

// gather merges the pages of a list: a JSON array of what they have under key.
func (r *request) gather(method, key string) ([]byte, error) {
	out := []byte{'['}
	_, err := r.collect(method, func(m *wire.Message) {
		for _, item := range wire.Items(m.Raw, wire.Get(m.Raw, m.Result, key)) {
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(out, item.Of(m.Raw)...)
		}
	})
	if err != nil {
		return nil, err
	}
	return append(out, ']'), nil
}

// braced puts members into braces.
func braced(p members) []byte {
	return append(append(append(make([]byte, 0, len(p)+2), '{'), p...), '}')
}
