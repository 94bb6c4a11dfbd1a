package aggregator

import (
	"bytes"
	"context"
	"strconv"

	"github.com/goccy/go-json"
	"github.com/valyala/fasthttp"

	"dragoman/adapters/definitions"
	"dragoman/adapters/mcphttp"
)

// Definitions configure what the API does about definitions that are held.
type Definitions struct {
	// Held returns the definitions of a server, by its name, that are held.
	Held func(ctx context.Context, server string) ([]definitions.Held, error)
	// Approve approves some of them, or all if what is nil, on behalf of somebody, and returns them.
	Approve func(ctx context.Context, server, by string, what []definitions.Approval) ([]definitions.Approval, error)
}

// maxApprovals bounds the definitions that one request approves by their names.
const maxApprovals = 1000

// Approved is the answer to an approval.
type Approved struct {
	Definitions []definitions.Approval `json:"approved"`
}

func (a *api) held(ctx *fasthttp.RequestCtx) (int, any, error) {
	s, err := a.find(ctx, false)
	if err != nil {
		return 0, nil, err
	}
	within, cancel := patience()
	defer cancel()
	all, err := a.opt.Definitions.Held(within, s.Name)
	if err != nil {
		return 0, nil, err
	}
	page, err := paged(ctx, all)
	return fasthttp.StatusOK, page, err
}

func (a *api) approve(ctx *fasthttp.RequestCtx) (int, any, error) {
	what, err := approvals(ctx.PostBody())
	if err != nil {
		return 0, nil, err
	}
	s, err := a.find(ctx, false)
	if err != nil {
		return 0, nil, err
	}
	ctx.SetUserValue("id", s.Name)
	within, cancel := patience()
	defer cancel()
	done, err := a.opt.Definitions.Approve(within, s.Name, mcphttp.CallerOf(ctx).Rights.Name, what)
	return fasthttp.StatusOK, Approved{done}, err
}

// approvals reads the definitions that a request approves; nil: all that are held.
func approvals(body []byte) (what []definitions.Approval, err error) {
	if len(body) == 0 {
		return nil, nil
	}
	var list struct {
		Definitions []json.RawMessage `json:"definitions"`
	}
	if err := read(body, &list, "definitions"); err != nil {
		return nil, err
	}
	var wrong mistakes
	if list.Definitions == nil {
		if bytes.Contains(body, []byte("null")) { // as the value of definitions, which is the only member
			wrong.add("must be an array", "definitions")
		}
		return nil, wrong.problem()
	}
	if len(list.Definitions) > maxApprovals {
		wrong.add("has more than "+strconv.Itoa(maxApprovals)+" elements", "definitions")
		return nil, wrong.problem()
	}
	what = make([]definitions.Approval, len(list.Definitions))
	for i, raw := range list.Definitions {
		one, at := &what[i], strconv.Itoa(i)
		if err := read(raw, one, "kind", "key", "hash"); err != nil {
			wrong.add("must be an object with kind, key and hash, which are text", "definitions", at)
			continue
		}
		if !definitions.Kind(one.Kind) {
			wrong.add("must be one of tools, prompts, templates, instructions", "definitions", at, "kind")
		}
	}
	return what, wrong.problem()
}
