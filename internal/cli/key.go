package cli

import (
	"bufio"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"dragoman/internal/config"
	"dragoman/internal/config/value"
	"dragoman/policies"
)

const keyLong = `Make API keys, and the hashes by which the configuration knows them. A key has
256 random bits. The configuration holds only its SHA-256 sum, which does not reveal
the key. A client sends it as "Authorization: Bearer KEY" or "X-API-Key: KEY".

To replace a key, add the new one's hash beside the old one's, hand the new key
out, and remove the old hash.`

func newKey(p *program) *cobra.Command {
	c := &cobra.Command{
		Use:     "key",
		Short:   "Make API keys for clients",
		Long:    keyLong,
		Example: "  dragoman key new ci\n  dragoman key hash < key.txt",
	}
	parent(c)
	c.AddCommand(newKeyNew(p), newKeyHash(p))
	return c
}

func newKeyNew(p *program) *cobra.Command {
	c := &cobra.Command{
		Use:   "new [NAME]",
		Short: "Print a fresh key, and what to write into the configuration",
		Long: `Print a fresh key on standard output, once: it is kept nowhere. What goes into
the configuration follows, on standard error, so that the key alone can be piped on.

The key is one for clients, or with --role for those who see (viewer) or register
(operator) servers while Dragoman runs, as ` + "`dragoman servers`" + ` does.`,
		Example: "  dragoman key new ci\n  dragoman key new ci | secret-store put dragoman-ci\n  dragoman key new me --role operator",
	}
	roles := []string{config.Viewer, config.Operator}
	role := c.Flags().String("role", "", "for the API of registered servers: `"+strings.Join(roles, "|")+"`")
	_ = c.RegisterFlagCompletionFunc("role", cobra.FixedCompletions(roles, cobra.ShellCompDirectiveNoFileComp))
	c.RunE = func(c *cobra.Command, args []string) error {
		name := "NAME"
		switch {
		case len(args) > 1:
			return usagef("unexpected argument %q; fix: write `%s NAME`", value.Shorten(args[1]), c.CommandPath())
		case len(args) == 1:
			if err := config.CheckKeyName(args[0]); err != nil {
				return usagef("%s", config.FullText(err))
			}
			name = args[0]
		}
		if *role != "" && !slices.Contains(roles, *role) {
			return usagef("%s", value.WithFix(fmt.Sprintf("--role: %q is not known", value.Shorten(*role)), "write "+value.OneOf(roles)))
		}
		key := policies.NewKey()
		if _, err := fmt.Fprintln(p.std.Out, key); err != nil {
			return failed(err)
		}
		entry := "which needs security.api_keys_enabled = true once:\n[security.api_keys." + value.KeyPart(name) + "]\nhashes = [" + value.Quote(policies.HashKey(key)) + "]\n"
		if *role != "" {
			entry = "of the dragoman that runs:\n[aggregator.keys." + value.KeyPart(name) + "]\nhashes = [" + value.Quote(policies.HashKey(key)) + "]\nrole = " + value.Quote(*role) + "\n"
		}
		_, err := fmt.Fprint(p.std.Err, "\n# This is the only time that the key is shown. Into the configuration, "+entry)
		return failed(err)
	}
	return c
}

// leastKey is the least length of a key, in characters: an unsalted hash does not protect a key that can be guessed.
const leastKey = 32

func newKeyHash(p *program) *cobra.Command {
	c := &cobra.Command{
		Use:     "hash",
		Short:   "Print the hash of a key that is read from standard input",
		Long:    "Print the hash of a key, one line on standard input. It must be random, and at least 32 characters long: the hash would not protect anything that can be guessed.",
		Example: "  dragoman key hash < key.txt",
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usagef("unexpected argument; fix: write the key to standard input, `%s < FILE`: arguments are seen by others", c.CommandPath())
		}
		line, err := bufio.NewReaderSize(p.std.In, 4096).ReadSlice('\n')
		key := strings.TrimRight(string(line), "\r\n")
		switch {
		case key == "" && err != nil:
			return failed(fmt.Errorf("no key came on standard input: %w", err))
		case len(key) < leastKey:
			return failed(fmt.Errorf("the key has %d characters and needs at least %d random ones; fix: make one with `dragoman key new`", len(key), leastKey))
		case len(key) > 512 || strings.ContainsAny(key, " \t") || value.HasControl(key):
			return failed(fmt.Errorf("a key has no blanks and at most 512 characters"))
		}
		_, err = fmt.Fprintln(p.std.Out, policies.HashKey(key))
		return failed(err)
	}
	return c
}
