package main

import (
	"context"
	"fmt"
	"strings"

	"dragoman/bench/reference"
)

// merged starts a Dragoman in front of several servers of one era as one, all served by one process.
// With a child the first server is a legacy child instead.
func (t *targets) merged(ctx context.Context, name string, era reference.Era, child bool) (target, error) {
	upstream, err := t.listing(ctx, era, mergedTools)
	if err != nil {
		return target{}, err
	}
	lines := members(&upstream, mergedServers)
	if child {
		lines[0] = fmt.Sprintf("[upstreams.s00]\ncommand = [%q, %q, %q, \"--era\", %q]\n", t.self, roleWord, roleEcho, reference.Legacy)
	}
	found, err := t.configured(ctx, name, false, "catalogue.path = \"memory\"\n"+strings.Join(lines, ""))
	found.tool = memberName(0) + ".echo"
	if !child {
		found.behind = upstream.process
	}
	if err == nil {
		tools := mergedServers * mergedTools
		if child {
			tools += 1 - mergedTools
		}
		_, err = t.whole(ctx, &found, tools) // views are made anew while lists are read
	}
	return found, err
}

// listing returns the server of an era with so many tools, which it starts.
func (t *targets) listing(ctx context.Context, era reference.Era, tools int) (target, error) {
	role := fmt.Sprintf("upstream-%s-%d", era, tools)
	if known, ok := t.running[role]; ok {
		return known, nil
	}
	upstream, err := t.role(ctx, role, roleUpstream, "--era", string(era), "--tools", fmt.Sprint(tools))
	if err == nil {
		t.running[role] = upstream
		t.order = append(t.order, role)
	}
	return upstream, err
}

// members returns the lines of a configuration for n members at one server: s00, s01 and so on.
func members(at *target, n int) (lines []string) {
	for i := range n {
		lines = append(lines, fmt.Sprintf("[upstreams.%s]\nurl = %q\n", memberName(i), at.url()))
	}
	return lines
}

func memberName(i int) string { return fmt.Sprintf("s%02d", i) }
