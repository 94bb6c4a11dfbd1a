// Dragoman stands between MCP clients and MCP servers and speaks to each in its own era and transport.
package main

import "os"

func main() {
	os.Exit(Main())
}
