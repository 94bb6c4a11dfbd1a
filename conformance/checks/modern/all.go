// Package modern holds the checks of servers of 2026-07-28, over HTTP and stdio.
package modern

import (
	"slices"

	"dragoman/conformance/suite"
)

// All returns the checks of modern servers, by area.
func All() []*suite.Check {
	return slices.Concat(requestsChecks(), envelopeChecks(), transportChecks(), responsesChecks(), listsChecks(), featuresChecks(), paramsChecks(), flowChecks(),
		mrtrChecks(), subscriptionsChecks(), overStdioChecks(), tasksChecks(), furtherChecks())
}
