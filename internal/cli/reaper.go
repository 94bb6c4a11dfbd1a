package cli

import (
	"os"

	"github.com/spf13/cobra"

	"dragoman/adapters/stdio/reaper"
)

// newReaper is what we start ourselves with, to start and end child processes; it is not for users.
func newReaper(*program) *cobra.Command {
	return &cobra.Command{
		Use:    reaper.Command,
		Short:  "Start and end child processes for another dragoman",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if !reaper.Called(os.Args) {
				return usagef("dragoman starts this command itself")
			}
			if code := reaper.Main(); code != 0 {
				return &verdict{code: code}
			}
			return nil
		},
	}
}
