package cli

import (
	"os"

	"github.com/spf13/cobra"

	"dragoman/adapters/stdio/reaper"
)

// newReaper returns the hidden command with which Dragoman starts itself to run child processes and end their process
// trees.
func newReaper(*program) *cobra.Command {
	return &cobra.Command{
		Use:     reaper.Command,
		Short:   "Start and end child processes for another dragoman",
		Long:    "Start child processes for the dragoman that started this command, and end their process trees when it is gone.\nIt is not for users.",
		Example: "  dragoman serve -- npx -y @modelcontextprotocol/server-everything   # starts it where it is needed",
		Hidden:  true,
		Args:    cobra.NoArgs,
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
