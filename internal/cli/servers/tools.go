package servers

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"dragoman/adapters/aggregator"
	"dragoman/adapters/merge/view"
	"dragoman/internal/config/value"
	"dragoman/proxy/wire"
)

// Search finds tools, of one server or category if its name is not empty.
func (c *Client) Search(ctx context.Context, query, server, category string, limit int) (a Answer[[]aggregator.FoundTool], err error) {
	params := url.Values{"q": {query}, "limit": {strconv.Itoa(limit)}}
	if server != "" {
		params.Set("server", server)
	}
	if category != "" {
		params.Set("category", category)
	}
	resp, err := c.ask(ctx, "GET", "/search?"+params.Encode(), nil)
	if err != nil {
		return a, err
	}
	return decoded[[]aggregator.FoundTool](resp.Body())
}

// Contexts returns what lists of tools spare clients.
func (c *Client) Contexts(ctx context.Context) (a Answer[aggregator.Contexts], err error) {
	resp, err := c.ask(ctx, "GET", "/contexts", nil)
	if err != nil {
		return a, err
	}
	return decoded[aggregator.Contexts](resp.Body())
}

// Categories returns the categories of tools.
func (c *Client) Categories(ctx context.Context) (Answer[[]aggregator.Category], error) {
	return pages[aggregator.Category](ctx, c, "/categories", url.Values{})
}

// categoryName matches what can be a part of a path as it is.
var categoryName = regexp.MustCompile(`^[a-z0-9_]+$`)

// changeCategory sends a request about one category. Another text than a name could lead elsewhere.
func (c *Client) changeCategory(ctx context.Context, method, name, below string, body any) error {
	if !categoryName.MatchString(name) {
		return misuse("%q is no name of a category; fix: write lower-case letters, digits and underscores, such as image_editing", value.Shorten(name))
	}
	_, err := c.ask(ctx, method, "/categories/"+name+below, body)
	return err
}

// PutCategory adds a category, or replaces the one of the name.
func (c *Client) PutCategory(ctx context.Context, name, description string, keywords []string) error {
	return c.changeCategory(ctx, "PUT", name, "", map[string]any{"description": description, "keywords": append([]string{}, keywords...)})
}

// RemoveCategory removes a category.
func (c *Client) RemoveCategory(ctx context.Context, name string) error {
	return c.changeCategory(ctx, "DELETE", name, "", nil)
}

// ResetCategory takes back what was changed of a category.
func (c *Client) ResetCategory(ctx context.Context, name string) error {
	return c.changeCategory(ctx, "POST", name, "/reset", nil)
}

// Tool returns the tool that clients call by a name; with a server also by its name there.
func (c *Client) Tool(ctx context.Context, server, name string) (t aggregator.Tool, err error) {
	all, err := c.Tools(ctx, server, "")
	if err != nil {
		return t, err
	}
	for i := range all.Is {
		if one := &all.Is[i]; one.Name == name || server != "" && one.Original == name {
			return *one, nil
		}
	}
	return t, misuse("there is no tool %q; fix: `dragoman servers tools` shows the names, `dragoman tools search` finds them", value.Shorten(name))
}

// Classify says which categories a tool of a server has, by its name there.
func (c *Client) Classify(ctx context.Context, server, tool string, categories []string) (a Answer[aggregator.Tool], err error) {
	path, err := pathOf(server)
	if err != nil {
		return a, err
	}
	resp, err := c.ask(ctx, "POST", path+"/classify", map[string]any{"tool": tool, "skill_ids": append([]string{}, categories...)})
	if err != nil {
		return a, err
	}
	return decoded[aggregator.Tool](resp.Body())
}

// Reclassify has tools classified again: one of a server, those of a server, or all.
func (c *Client) Reclassify(ctx context.Context, server, tool string) (a Answer[aggregator.Reclassified], err error) {
	resp, err := c.ask(ctx, "POST", "/reclassify", map[string]string{"server": server, "tool": tool})
	if err != nil {
		return a, err
	}
	return decoded[aggregator.Reclassified](resp.Body())
}

// Categories writes a line for each category.
func Categories(w io.Writer, all []aggregator.Category) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(w, "there are no categories: that needs several servers, and classification.mode local or llm")
		return err
	}
	return aligned(w, func(t io.Writer) {
		fmt.Fprintln(t, "CATEGORY\tTOOLS\tFIRST\tSOURCE\tDESCRIPTION")
		for i := range all {
			c := &all[i]
			fmt.Fprintf(t, "%s\t%d\t%d\t%s\t%s\n", c.Name, c.Tools, c.Primary, c.Source, wire.ShownText(c.Description))
		}
	})
}

// Found writes a line for each tool that was found: its name for clients, the status of its server, what matches, its primary category, and the
// first line of its description.
func Found(w io.Writer, all []aggregator.FoundTool, colourful bool) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(w, "no tool is near this")
		return err
	}
	return aligned(w, func(t io.Writer) {
		fmt.Fprintf(t, "TOOL\t%s\tSCORE\tMATCHES\tCATEGORY\tDESCRIPTION\n", paint("SERVER", usual, colourful))
		for i := range all {
			f := &all[i]
			first, _, _ := strings.Cut(f.Description, "\n")
			fmt.Fprintf(t, "%s\t%s\t%.2f\t%s\t%s\t%s\n", wire.Shown(cmp.Or(f.Name, f.Original+" (hidden)")), paint(wire.Shown(f.Source.Status), statusColour(f.Source.Status), colourful), f.Score,
				wire.ShownText(strings.Join(f.Why, ", ")), cmp.Or(f.Primary, "-"), wire.ShownText(first))
		}
	})
}

// Contexts writes how much of a model's context the tools of each endpoint take, and what was spared since the start.
func Contexts(w io.Writer, c *aggregator.Contexts) error {
	err := aligned(w, func(t io.Writer) {
		fmt.Fprintln(t, "PATH\tCLIENTS\tMODE\tTOOLS\tLISTED\tTOKENS OF ALL\tSPARED")
		for i := range c.Contexts {
			x := &c.Contexts[i]
			clients := strings.Join(x.Clients, ", ")
			if len(x.Keys) > 0 {
				clients = strings.TrimPrefix(clients+", keys "+strings.Join(x.Keys, ", "), ", ")
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t~%d\t~%d\n", wire.Shown(x.Path), wire.ShownText(cmp.Or(clients, "all others")), x.Mode, x.Tools, x.ListedTools, view.Tokens(x.Bytes), x.Tokens)
		}
	})
	if err == nil {
		_, err = fmt.Fprintf(w, "since the start: %d lists of clients of search and auto, %d bytes listed, %d spared; %d searches\n", c.Lists, c.Listed, c.Spared, c.Searches)
	}
	return err
}
