package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"dragoman/internal/cli/servers"
)

const toolsLong = `Find tools of the servers of a running ` + "`dragoman serve`" + `, and see how much of a
model's context their definitions take. Both ask the API of its admin listener, with
the key of a viewer, as ` + "`dragoman servers`" + ` does.`

func newTools(p *program) *cobra.Command {
	c := &cobra.Command{Use: "tools", Short: "Find tools of a running dragoman", Long: toolsLong,
		Example: "  dragoman tools search \"create an issue\"\n  dragoman tools stats"}
	parent(c)
	s := addServersFlags(p, c.PersistentFlags())
	c.AddCommand(s.searchTools(), s.stats())
	return c
}

// mostFoundTools is the highest --limit.
const mostFoundTools = 100

func (s *serversFlags) searchTools() *cobra.Command {
	c := &cobra.Command{
		Use:   "search TEXT... [flags]",
		Short: "Find tools by what they do",
		Long: `Find tools by what they are to do, said in plain words. A line for each: the name by which
clients call it, the state of its server, its score, what of it matches, and the first
line of its description. Servers that are away are searched as well; clients do not
find their tools.`,
		Example: "  dragoman tools search \"create an issue in a repository\"\n  dragoman tools search delete files --server files --limit 3\n  dragoman tools search weather --json",
	}
	server := c.Flags().String("server", "", "only tools of this server, by its `NAME`")
	category := c.Flags().String("category", "", "only tools of this category, by its `NAME`")
	limit := c.Flags().Int("limit", 10, "the most tools, 1 to 100")
	asJSON := c.Flags().Bool("json", false, "print JSON, as the API has it: with schemas")
	c.ValidArgsFunction = cobra.NoFileCompletions
	c.RunE = func(c *cobra.Command, args []string) error {
		query := strings.Join(args, " ")
		switch {
		case strings.TrimSpace(query) == "":
			return usagef("what is to be found is missing; fix: write `%s \"create an issue\"`", c.CommandPath())
		case *limit < 1 || *limit > mostFoundTools:
			return usagef("--limit: %d is out of range; fix: write a number from 1 to %d", *limit, mostFoundTools)
		}
		return s.run(c, func(ctx context.Context, api *servers.Client) error {
			found, err := api.Search(ctx, query, *server, *category, *limit)
			switch {
			case err != nil:
				return err
			case *asJSON:
				return servers.JSON(s.p.std.Out, found.Raw)
			}
			return servers.Found(s.p.std.Out, found.Is, s.colourful())
		})
	}
	return c
}

func (s *serversFlags) stats() *cobra.Command {
	c := &cobra.Command{
		Use:   "stats",
		Short: "Print how much of a model's context the tools take",
		Long: `Print for each endpoint of several servers how many tools it has and lists, about how
many tokens the definitions of all of them are (a token for four bytes), and how many
are spared, as the key context and the tables contexts have it.`,
		Example: "  dragoman tools stats\n  dragoman tools stats --json",
	}
	asJSON := c.Flags().Bool("json", false, "print JSON, as the API has it")
	c.Args = cobra.NoArgs
	c.RunE = func(c *cobra.Command, _ []string) error {
		return s.run(c, func(ctx context.Context, api *servers.Client) error {
			all, err := api.Contexts(ctx)
			switch {
			case err != nil:
				return err
			case *asJSON:
				return servers.JSON(s.p.std.Out, all.Raw)
			}
			return servers.Contexts(s.p.std.Out, &all.Is)
		})
	}
	return c
}
