// Package modern holds the checks of servers of 2026-07-28, over HTTP and stdio.
package modern

import (
	"slices"

	"dragoman/conformance/suite"
)

// All returns the checks of modern servers, by area.
func All() []*suite.Check {
	return slices.Concat(requestsChecks(), metaChecks(), versionsChecks(), methodsChecks(), messagesChecks(), transportChecks(), responsesChecks(),
		discoverChecks(), cachingChecks(), pagesChecks(), toolsChecks(), toolResultsChecks(), resourcesChecks(), promptsChecks(),
		paramsChecks(), progressChecks(), loggingChecks(), cancelChecks(), questionsChecks(), undeclaredChecks(), retriesChecks(),
		statesChecks(), acknowledgedChecks(), deliveredChecks(), filtersChecks(), overStdioChecks(), tasksChecks(), furtherChecks())
}
