package checks

import (
	"slices"

	"dragoman/conformance/checks/legacy"
	"dragoman/conformance/checks/modern"
	"dragoman/conformance/checks/rest"
	"dragoman/conformance/suite"
)

// All returns every check, by area.
func All() []*suite.Check {
	return slices.Concat([]*suite.Check{suite.Shapes()}, modern.All(), legacy.All(), authChecks(), rest.All())
}
