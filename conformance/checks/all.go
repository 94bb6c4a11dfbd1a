package checks

import "dragoman/conformance/suite"

// All are the checks, by area.
func All() []*suite.Check {
	var all []*suite.Check
	for _, area := range [][]*suite.Check{
		{suite.Shapes()},
		modernRequests(), modernEnvelope(), modernTransport(), modernResponses(), modernLists(), modernFeatures(), modernParams(), modernFlow(),
		modernMRTR(), modernSubscriptions(), modernOverStdio(), modernTasks(), modernFurther(),
		legacyLifecycle(), legacyMessages(), legacySession(), legacyHTTPChecks(), legacyBatch(), legacyStream(), legacyStdioChecks(), sseChecks(),
		legacyLists(), legacyTools(), legacyResources(), legacyPrompts(), legacyLogging(), legacyProgress(), legacyAsk(), legacyTasks(), legacyFurther(), authChecks(), restChecks(),
	} {
		all = append(all, area...)
	}
	return all
}
