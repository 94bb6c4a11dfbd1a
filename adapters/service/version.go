package service

import "regexp"

// Semver is what a version has to look like: MAJOR.MINOR.PATCH, perhaps with a pre-release and a build (seed 000, ToolsResponse).
var Semver = regexp.MustCompile(`^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)

// Version is the version of a service (seed 000, ToolsResponse and HealthResponse): the configured one; where none is, that of the
// server behind it, if it is semantic; else 0.0.0.
func Version(configured, server string) string {
	switch {
	case configured != "":
		return configured
	case Semver.MatchString(server):
		return server
	}
	return "0.0.0"
}
