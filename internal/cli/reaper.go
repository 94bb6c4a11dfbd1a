package cli

import (
	"slices"

	"github.com/spf13/cobra"

	"dragoman/adapters/stdio/reaper"
)

// newReaper documents the hidden command with which Dragoman starts itself to run child processes and end their process
// trees. [Main] runs it.
func newReaper(*program) *cobra.Command {
	return &cobra.Command{
		Use:     reaper.Command + " [flags]",
		Short:   "Start and end child processes for another dragoman",
		Long:    "Start child processes for the dragoman that started this command, and end their process trees when it is gone.\nIt is not for users.",
		Example: "  dragoman serve -- npx -y @modelcontextprotocol/server-everything   # starts it where it is needed",
		Hidden:  true,
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return usagef("dragoman starts this command itself") },
	}
}

// startsChild reports whether a command line names a COMMAND to start and a command that starts it.
func startsChild(args []string) bool {
	return len(args) > 0 && slices.Contains([]string{"serve", "stdio", "probe"}, args[0]) && slices.Contains(args, "--")
}
