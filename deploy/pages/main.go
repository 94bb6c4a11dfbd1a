// Pages writes what a package has beside the binary, from the tree of commands: `pages DIRECTORY` makes man/ with a page for each command, and
// completions/ with a file for each shell. SOURCE_DATE_EPOCH is the date of the pages.
package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"dragoman/internal/cli"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: pages DIRECTORY")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "pages:", err)
		os.Exit(1)
	}
}

func write(dir string) error {
	man, completions := filepath.Join(dir, "man"), filepath.Join(dir, "completions")
	for _, d := range []string{man, completions} {
		if err := os.MkdirAll(d, 0o755); err != nil { //nolint:gosec // everybody reads them
			return err
		}
	}
	root := cli.Tree()
	for name, shell := range shells(root) {
		var text bytes.Buffer
		if err := shell(&text); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(completions, name), text.Bytes(), 0o644); err != nil { //nolint:gosec // everybody reads them
			return err
		}
	}
	literal(root)
	root.DisableAutoGenTag = true
	return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "Dragoman", Manual: "Dragoman"}, man)
}

// shells returns the names under which shells look for their completions, and what writes them.
func shells(root *cobra.Command) map[string]func(io.Writer) error {
	return map[string]func(io.Writer) error{
		"dragoman.bash": func(w io.Writer) error { return root.GenBashCompletionV2(w, true) },
		"_dragoman":     root.GenZshCompletion,
		"dragoman.fish": func(w io.Writer) error { return root.GenFishCompletion(w, true) },
		"dragoman.ps1":  root.GenPowerShellCompletionWithDesc,
	}
}

// literal keeps the lines of the help texts, which are laid out for terminals: the generator takes them for Markdown.
func literal(c *cobra.Command) {
	if c.Long != "" {
		c.Long = "```\n" + c.Long + "\n```"
	}
	for _, sub := range c.Commands() {
		literal(sub)
	}
}
