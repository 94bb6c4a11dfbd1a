package reaper

import "os"

// Command is the command-line argument that makes a process the reaper: see Called and Main.
const Command = "reaper"

// markKey is the environment variable that carries a reaper's part of the marks, and confirms Command.
const markKey = "_DRAGOMAN_REAPER"

// MarkKey is the environment variable that the reaper sets in each child. Its value differs for each child and identifies
// descendants whose parents are gone. It has no DRAGOMAN_ prefix because such variables configure Dragoman, and the child may
// be one.
const MarkKey = "_DRAGOMAN_CHILD"

// Called reports whether this process, with these arguments (os.Args), was started to be a reaper. Its main function, or TestMain,
// then calls Main and nothing else.
func Called(args []string) bool {
	return len(args) == 2 && args[1] == Command && os.Getenv(markKey) != ""
}
