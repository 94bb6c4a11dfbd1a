package checks

import "dragoman/conformance/suite"

// All are the checks, by area.
func All() []*suite.Check {
	var all []*suite.Check
	for _, area := range [][]*suite.Check{
		{suite.Shapes()},
		modernRequests(),
	} {
		all = append(all, area...)
	}
	return all
}
