package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"dragoman/adapters/aggregator"
	"dragoman/adapters/classification"
	"dragoman/internal/cli/servers"
	"dragoman/internal/config/value"
	"dragoman/proxy/wire"
)

const toolsLong = `Find tools of the servers of a running ` + "`dragoman serve`" + `, see and say which categories
they have, and how much of a model's context their definitions take. The commands ask
the API of its admin listener, as ` + "`dragoman servers`" + ` does: with the key of a viewer, and
with that of an operator for changes.`

func newTools(p *program) *cobra.Command {
	c := &cobra.Command{Use: "tools", Short: "Find tools of a running dragoman", Long: toolsLong,
		Example: "  dragoman tools search \"create an issue\"\n  dragoman tools categories\n  dragoman tools classify github.create_issue software_development\n  dragoman tools stats"}
	parent(c)
	s := addServersFlags(p, c.PersistentFlags())
	c.AddCommand(s.searchTools(), s.stats(), s.categories(), s.classify(), s.reclassify())
	return c
}

// mostFoundTools is the highest --limit.
const mostFoundTools = 100

func (s *serversFlags) searchTools() *cobra.Command {
	c := &cobra.Command{
		Use:   "search TEXT... [flags]",
		Short: "Find tools by what they do",
		Long: `Find tools by what they are to do, said in plain words. A line for each: the name by which
clients call it, the state of its server, its score, what of it matches, its primary
category, and the first line of its description. Servers that are away are searched as well; clients do not
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

func (s *serversFlags) categories() *cobra.Command {
	c := &cobra.Command{
		Use:   "categories",
		Short: "List or change the categories of tools",
		Long: `List the categories of tools: how many tools have each, how many of them have it first,
and where it comes from: the standard set, the configuration, or a change by an
operator. The subcommands change them while Dragoman runs. A change is kept in the
catalogue, and counts before the configuration; tools are then classified again.`,
		Example: "  dragoman tools categories\n  dragoman tools categories set gardening --description \"Lawns and hedges\" --keyword lawn --keyword \"seed bed\"\n  dragoman tools categories remove gaming",
	}
	asJSON := c.Flags().Bool("json", false, "print JSON, as the API has it: with keywords")
	c.Args = cobra.NoArgs
	c.RunE = func(c *cobra.Command, _ []string) error {
		return s.run(c, func(ctx context.Context, api *servers.Client) error {
			all, err := api.Categories(ctx)
			switch {
			case err != nil:
				return err
			case *asJSON:
				return servers.JSON(s.p.std.Out, all.Raw)
			}
			return servers.Categories(s.p.std.Out, all.Is)
		})
	}
	c.AddCommand(s.setCategory(),
		s.changeCategory("remove NAME", "Remove a category", `Remove a category: no tool has it any more. One of the configuration or the standard set is
removed as well, until reset takes that back.`, "removed", (*servers.Client).RemoveCategory),
		s.changeCategory("reset NAME", "Take back what was changed of a category", `Take back what was set or removed: the category is that of the configuration or the
standard set again. One that only an operator has set is gone.`, "reset", (*servers.Client).ResetCategory))
	return c
}

// oneCategory makes a command take exactly one NAME of a category.
func oneCategory(c *cobra.Command) {
	c.Args = func(c *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return usagef("the NAME of a category is missing; fix: write `%s NAME`, `dragoman tools categories` shows the names", c.CommandPath())
		case len(args) > 1:
			return usagef("unexpected argument %q; fix: write `%s NAME`", value.Shorten(args[1]), c.CommandPath())
		}
		return nil
	}
	c.ValidArgsFunction = cobra.NoFileCompletions
}

func (s *serversFlags) setCategory() *cobra.Command {
	c := &cobra.Command{
		Use:   "set NAME [flags]",
		Short: "Add a category, or replace one",
		Long: `Add a category, or replace the one of this name. The description says in a sentence what
its tools are for; keywords are words, or groups of words, that its tools have in
their definitions. NAME is in lower case, such as image_editing.`,
		Example: "  dragoman tools categories set gardening --description \"Lawns and hedges\" --keyword lawn --keyword \"seed bed\"",
	}
	description := c.Flags().String("description", "", "what its tools are for, in a `SENTENCE`")
	keywords := c.Flags().StringArray("keyword", nil, "a `WORD`, or several, that its tools have; may be repeated")
	oneCategory(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if *description == "" && len(*keywords) == 0 {
			return usagef("the category would say nothing of its tools; fix: write `%s %s --description SENTENCE --keyword WORD`", c.CommandPath(), value.Shorten(args[0]))
		}
		return s.run(c, func(ctx context.Context, api *servers.Client) error {
			if err := api.PutCategory(ctx, args[0], *description, *keywords); err != nil {
				return err
			}
			return s.say("set " + args[0] + "; tools are classified again")
		})
	}
	return c
}

func (s *serversFlags) changeCategory(use, short, long, did string, do func(*servers.Client, context.Context, string) error) *cobra.Command {
	verb, _, _ := strings.Cut(use, " ")
	c := &cobra.Command{Use: use, Short: short, Long: long, Example: "  dragoman tools categories " + verb + " gaming"}
	oneCategory(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		return s.run(c, func(ctx context.Context, api *servers.Client) error {
			if err := do(api, ctx, args[0]); err != nil {
				return err
			}
			return s.say(did + " " + args[0])
		})
	}
	return c
}

func (s *serversFlags) classify() *cobra.Command {
	c := &cobra.Command{
		Use:   "classify TOOL [CATEGORY...]",
		Short: "Say which categories a tool has",
		Long: `Say which categories a tool has, one to three, the most important one first. That stays,
whatever the tool's definition becomes and whatever classifiers say. Without a
category it is taken back, and the tool is classified again. TOOL is its name for
clients; with --server also its name at that server.`,
		Example: "  dragoman tools classify github.create_issue project_management\n  dragoman tools classify --server github create_issue project_management\n  dragoman tools classify github.create_issue",
	}
	server := c.Flags().String("server", "", "the tool's server, by its `NAME`")
	c.ValidArgsFunction = cobra.NoFileCompletions
	c.RunE = func(c *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return usagef("the TOOL is missing; fix: write `%s TOOL CATEGORY`, `dragoman servers tools` shows the names", c.CommandPath())
		case len(args) > 1+classification.MostCategories:
			return usagef("a tool has at most %d categories; fix: name the most important ones", classification.MostCategories)
		}
		return s.run(c, func(ctx context.Context, api *servers.Client) error {
			at, err := api.Tool(ctx, *server, args[0])
			if err != nil {
				return err
			}
			done, err := api.Classify(ctx, at.Server, at.Original, args[1:])
			switch {
			case err != nil:
				return err
			case len(args) == 1:
				return s.say(wire.Shown(args[0]) + " is classified again")
			}
			return s.say(wire.Shown(args[0]) + ": " + wire.ShownText(strings.Join(done.Is.Skills, ", ")))
		})
	}
	return c
}

func (s *serversFlags) reclassify() *cobra.Command {
	c := &cobra.Command{
		Use:   "reclassify [TOOL] [flags]",
		Short: "Have tools classified again",
		Long: `Have all tools classified again, those of one server, or one tool. Tools whose categories
a person has said are left alone. Tools keep their categories until then. A classifier
that was left alone after failures is asked at once.`,
		Example: "  dragoman tools reclassify\n  dragoman tools reclassify --server github\n  dragoman tools reclassify github.create_issue",
	}
	server := c.Flags().String("server", "", "only tools of this server, by its `NAME`")
	c.ValidArgsFunction = cobra.NoFileCompletions
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 1 {
			return usagef("unexpected argument %q; fix: write `%s TOOL`", value.Shorten(args[1]), c.CommandPath())
		}
		return s.run(c, func(ctx context.Context, api *servers.Client) error {
			at := aggregator.Tool{Server: *server}
			if len(args) == 1 {
				var err error
				if at, err = api.Tool(ctx, *server, args[0]); err != nil {
					return err
				}
			}
			done, err := api.Reclassify(ctx, at.Server, at.Original)
			if err != nil {
				return err
			}
			return s.say(counted(done.Is.Tools, "tool") + " will be classified again")
		})
	}
	return c
}
