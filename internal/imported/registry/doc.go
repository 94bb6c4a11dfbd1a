// Package registry reads MCP registries: servers as server.json describes them (schema 2025-12-11), the registry API v0.1, and a list of a
// registry that is kept on this machine. What it reads was written by strangers: nothing is started or opened here, and texts are shown
// with wire.Shown only.
package registry
