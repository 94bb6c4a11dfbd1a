package checkutil

import (
	"slices"
	"strings"
	"time"

	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

// Tools of the fixtures that checks of both eras call, by the names of the official suite.
const (
	ToolProgress = "test_tool_with_progress"
	ToolLogging  = "test_tool_with_logging"

	ToolComputes = "slow_compute"       // number seconds
	ToolFails    = "failing_job"        // ends with isError
	ToolBreaks   = "protocol_error_job" // ends with a JSON-RPC error
	ToolConfirms = "confirm_delete"     // asks for confirmation while its task runs
)

// MetaRelated is the member of _meta that names the task of a message, in 2025-11-25.
const MetaRelated = "io.modelcontextprotocol/related-task"

// TaskTime is the requested run time of the fixture's tasks.
const TaskTime = 300 * time.Millisecond

// Terminal reports whether a task has ended.
func Terminal(task peer.Object) bool {
	return slices.Contains([]string{"completed", "failed", "cancelled"}, peer.Text(task, "status"))
}

// OnlyReads reports whether a tool is safe to call: it is marked read-only, or belongs to the fixture.
func OnlyReads(t *suite.Trial, tool peer.Object) bool {
	name := peer.Text(tool, "name")
	return peer.Get(tool, "annotations", "readOnlyHint") == true || name == "echo" || name == "add" || t.Offer.Fixture() && strings.HasPrefix(name, "test_")
}
