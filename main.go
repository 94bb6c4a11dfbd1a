// Dragoman stands between MCP clients and MCP servers and speaks to each in its own era and transport.
package main

import (
	"os"

	"dragoman/internal/cli"
)

func main() {
	os.Exit(cli.Main())
}
