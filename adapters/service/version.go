package service

import "regexp"

// Semver matches a version: MAJOR.MINOR.PATCH, with an optional pre-release and build (seed 000, ToolsResponse).
var Semver = regexp.MustCompile(`^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)

// Version returns the version of a service (seed 000, ToolsResponse and HealthResponse): the configured one, else that of its server
// if it is semantic, else 0.0.0.
func Version(configured, server string) string {
	switch {
	case configured != "":
		return configured
	case Semver.MatchString(server):
		return server
	}
	return "0.0.0"
}
