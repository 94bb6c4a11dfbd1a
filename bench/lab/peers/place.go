//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"
)

// place holds the parameters that a contender is started with.
type place struct {
	settings *settings
	dir      string   // its own directory
	port     string   // to listen on, at the loopback address
	child    []string // argv
	upstream string   // the URL of the server, instead of a child
	merges   bool     // it is that of several servers
	idleTTL  time.Duration
	// extra has lines of TOML for the upstream in Dragoman's configuration.
	extra string
}

// Kits: what has to be installed for a contender, as --without names it.
const (
	kitNPM          = "npm"
	kitTBXark       = "tbxark"
	kitMCPProxyPy   = "mcp-proxy-py"
	kitMCPO         = "mcpo"
	kitContextForge = "contextforge"
	kitFastMCP      = "fastmcp"
)

// withJSON writes a configuration and returns the program, the flag if there is one, and the file's name.
func (p *place) withJSON(flag, program string, config any) ([]string, error) {
	text, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(p.dir, "config.json")
	if err = writeFile(file, string(text)); err != nil {
		return nil, err
	}
	if flag == "" {
		return []string{program, file}, nil
	}
	return []string{program, flag, file}, nil
}

// program returns the command line of a program from PyPI. It sets its environment and directory by env.
func (p *place) program(kit, name string, environment ...string) ([]string, error) {
	path, err := filepath.Abs(filepath.Join(p.settings.python, kit, "bin", name))
	if err != nil {
		return nil, err
	}
	return append(append([]string{"env", "--chdir=" + p.dir}, environment...), path), nil
}

func writeFile(name, text string) error {
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		return fmt.Errorf("peers: %w", err)
	}
	return nil
}

// freePort finds a free loopback port: not every contender can choose one itself.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("peers: %w", err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}
