package main

import (
	"dragoman/adapters/era"
	"dragoman/proxy"
)

// before are the policies that judge a request before it is known where it goes; the first is the outermost. Repeats of a request
// wait for its answer in front of them, and take no slot.
func (h *house) before() []proxy.Policy { return nil }

// around are the policies of one upstream.
func (h *house) around(*Upstream, *era.Upstream) []proxy.Policy { return nil }
