package e2e

import (
	"os"
	"testing"

	"dragoman/adapters/stdio/reaper"
	"dragoman/internal/cli"
	"dragoman/internal/testkit"
)

// TestMain lets the test binary be Dragoman or a server that a test starts, and finds leaked goroutines.
func TestMain(m *testing.M) {
	if reaper.Called(os.Args) {
		os.Exit(reaper.Main())
	}
	switch os.Getenv(testkit.AsDragoman) {
	case "main":
		os.Exit(cli.Main())
	case "pipe":
		pipeMain()
	case "swell":
		largeAnswersMain()
	case "sdk":
		sdkMain()
	case "gossip":
		gossipMain()
	case "count":
		countMain()
	case "fickle":
		fickleMain()
	}
	testkit.Run(m)
}
