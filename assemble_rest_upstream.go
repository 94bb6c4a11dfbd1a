package main

import (
	"dragoman/adapters/era"
	"dragoman/adapters/mcphttp"
	"dragoman/adapters/rest"
)

// restSpeaks is what such a service is said to speak.
const restSpeaks = "the REST envelope, served to clients as a modern server"

// restWires are the ways to a service that speaks the REST envelope: one, for modern exchanges. Nothing is to be found out but
// whether it is there.
func (h *house) restWires(up *Upstream) (era.Wires, error) {
	host, base, err := h.host(up)
	if err != nil {
		return era.Wires{}, err
	}
	service := rest.NewUpstream(host, base.RequestURI(), mcphttp.Limits{Body: h.cfg.Limits.ResponseBody, Event: h.cfg.Limits.Event})
	if h.services == nil {
		h.services = make(map[string]*rest.Upstream)
	}
	h.services[up.Name] = service
	return era.Wires{Modern: service.Dial, Certain: true}, nil
}
