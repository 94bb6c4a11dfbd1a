package cli

import (
	"fmt"

	"github.com/goccy/go-json"
	"github.com/spf13/cobra"

	"dragoman/internal/app"
	"dragoman/internal/config/value"
)

func newVersion(p *program) *cobra.Command {
	c := &cobra.Command{
		Use:     "version [flags]",
		Short:   "Print the version",
		Long:    "Print the version and revision of this binary, and what it was built with.",
		Example: "  dragoman version\n  dragoman version --json",
	}
	asJSON := c.Flags().Bool("json", false, "print JSON")
	c.RunE = func(_ *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usagef("unexpected argument %q; fix: write `dragoman version`", value.Shorten(args[0]))
		}
		line := app.ReadVersion().String()
		if *asJSON {
			data, err := json.Marshal(app.ReadVersion())
			if err != nil {
				return failed(fmt.Errorf("version: %w", err))
			}
			line = string(data)
		}
		_, err := fmt.Fprintln(p.std.Out, line)
		return failed(err)
	}
	return c
}
