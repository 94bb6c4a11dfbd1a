package aggregator

import (
	"strconv"

	"github.com/valyala/fasthttp"
)

// FoundTool is a tool that was searched for.
type FoundTool struct {
	Tool
	Source SourceServer `json:"source_server"` // seed 004, BR-009
	Score  float64      `json:"score"`         // only the order of scores of one search means something
	Why    []string     `json:"why"`           // what of the tool matches
}

// SourceServer is the server of a tool.
type SourceServer struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Status string `json:"status"`
}

// Bounds of a search.
const (
	usualFound = 10
	mostFound  = 100
	maxQuery   = 2000 // bytes
)

func (a *api) search(ctx *fasthttp.RequestCtx) (int, any, error) {
	args := ctx.QueryArgs()
	query := string(args.Peek("q"))
	if query == "" || len(query) > maxQuery {
		return 0, nil, Wrong("must say in plain words what a tool is to do, in at most "+strconv.Itoa(maxQuery)+" bytes", "query", "q")
	}
	limit := usualFound
	if text := string(args.Peek("limit")); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > mostFound {
			return 0, nil, Wrong("must be a number from 1 to "+strconv.Itoa(mostFound), "query", "limit")
		}
		limit = n
	}
	found := a.opt.Search(ctx, query, string(args.Peek("server")), string(args.Peek("category")), limit)
	return fasthttp.StatusOK, append([]FoundTool{}, found...), nil
}

// Context tells how an endpoint lists its tools to some clients, and how much of a model's context that takes.
type Context struct {
	Path        string   `json:"path"`
	Clients     []string `json:"clients,omitempty"`
	Keys        []string `json:"keys,omitempty"`
	Mode        string   `json:"mode"` // all, auto or search
	Short       bool     `json:"short"`
	Tools       int      `json:"tools"`
	Bytes       int      `json:"bytes"`
	ListedTools int      `json:"listed_tools"`
	ListedBytes int      `json:"listed_bytes"`
	Spared      int      `json:"spared_bytes"`
	Tokens      int      `json:"spared_tokens_estimate"`
}

// Contexts tells how much of their context lists of tools spare clients.
type Contexts struct {
	Contexts []Context `json:"contexts"`
	Lists    int64     `json:"lists"` // answered to clients of auto and search since the start
	Listed   int64     `json:"listed_bytes"`
	Spared   int64     `json:"spared_bytes"`
	Searches int64     `json:"searches"`
}

func (a *api) contexts(*fasthttp.RequestCtx) (int, any, error) {
	c := a.opt.Contexts()
	c.Contexts = append([]Context{}, c.Contexts...)
	return fasthttp.StatusOK, c, nil
}
