package cli

import (
	"dragoman/internal/config/reference"

	"github.com/spf13/cobra"
)

func newConfigReference(p *program) *cobra.Command {
	return &cobra.Command{
		Use:   "reference",
		Short: "Print what every key is, as Markdown",
		Long: `Print a reference of the configuration: every key with its type, default,
bounds, variable, flag, and what it is for. docs/configuration.md is this.`,
		Example: "  dragoman config reference",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return failed(reference.WriteReference(p.std.Out)) },
	}
}

func newConfigSchema(p *program) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print a JSON Schema of the file, for editors",
		Long: `Print a JSON Schema (draft-07) of the configuration file, with which editors
complete and check it as one writes. In TOML the first line of the file names it:

  #:schema ./config.schema.json`,
		Example: "  dragoman config schema > config.schema.json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			text, err := reference.Schema()
			if err != nil {
				return failed(err)
			}
			_, err = p.std.Out.Write(text)
			return failed(err)
		},
	}
}
