// Package legacy holds the checks of servers of the revisions 2024-11-05 to 2025-11-25, over streamable HTTP, HTTP+SSE and stdio.
package legacy

import (
	"slices"

	"dragoman/conformance/suite"
)

// All returns the checks of legacy servers, by area.
func All() []*suite.Check {
	return slices.Concat(initializeChecks(), firstChecks(), agreedChecks(), messagesChecks(), sessionChecks(), httpChecks(), batchChecks(),
		streamChecks(), stdioChecks(), sseChecks(), listsChecks(), toolsChecks(), resourcesChecks(), promptsChecks(), loggingChecks(),
		progressChecks(), askChecks(), tasksChecks(), furtherChecks())
}
