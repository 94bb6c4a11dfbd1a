package main

import (
	"context"
	"fmt"
	"strings"

	"dragoman/bench/reference"
)

// The size of a merge: so many servers, each with so many tools.
const (
	mergedServers = 50
	mergedTools   = 200
)

// merged starts a Dragoman in front of several servers of one era as one, all served by one process. The first keeps the names of its tools.
// With a child the first server is a legacy child instead.
func (t *targets) merged(ctx context.Context, name string, era reference.Era, child bool) (target, error) {
	role := fmt.Sprintf("upstream-merge-%s", era)
	upstream, known := t.running[role]
	if !known {
		var err error
		if upstream, err = t.role(ctx, role, roleUpstream, "--era", string(era), "--tools", fmt.Sprint(mergedTools)); err != nil {
			return target{}, err
		}
		t.running[role] = upstream
		t.order = append(t.order, role)
	}
	var lines strings.Builder
	lines.WriteString("names.prefix = \"never\"\ncatalogue.path = \"memory\"\n")
	for i := range mergedServers {
		if i == 0 && child {
			fmt.Fprintf(&lines, "[upstreams.s00]\ncommand = [%q, %q, %q, \"--era\", %q]\n", t.self, roleWord, roleEcho, reference.Legacy)
			continue
		}
		fmt.Fprintf(&lines, "[upstreams.s%02d]\nurl = %q\n", i, upstream.url())
	}
	found, err := t.configured(ctx, name, false, lines.String())
	if !child {
		found.behind = upstream.process
	}
	return found, err
}
