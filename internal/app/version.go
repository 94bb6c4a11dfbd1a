package app

import (
	"cmp"
	"runtime"
	"runtime/debug"

	"dragoman/internal/config"
	"dragoman/proxy/wire"
)

// VersionInfo describes the build of the binary.
type VersionInfo struct {
	Version  string `json:"version"` // of the module; "devel" for a build without one
	Revision string `json:"revision,omitempty"`
	Time     string `json:"time,omitempty"` // of the revision, RFC 3339
	Modified bool   `json:"modified"`       // the tree was not clean
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// released is the version of a release, set by -ldflags "-X dragoman/internal/app.released=v1.2.3". A release is built
// before its tag exists, since it is tested first.
var released string

// ReadVersion returns the version that the binary was built from.
func ReadVersion() VersionInfo {
	v := VersionInfo{Version: "devel", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" && info.Main.Version != "(devel)" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.time":
			v.Time = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	if released != "" {
		v.Version = released
	}
	return v
}

// shortRevision is how many characters of a revision people get to see.
const shortRevision = 12

// String returns one line for people.
func (v VersionInfo) String() string {
	line := "dragoman " + v.Version
	if v.Revision != "" {
		line += " (" + v.Revision[:min(shortRevision, len(v.Revision))]
		if v.Modified {
			line += ", modified"
		}
		line += ")"
	}
	return line + " " + v.Go + " " + v.Platform
}

// clientInfo returns the clientInfo of requests that Dragoman makes on its own behalf.
func clientInfo(cfg *config.Config) []byte {
	return implementation(cfg.Service.Name, cmp.Or(cfg.Service.Version, ReadVersion().Version))
}

// restInfo returns the clientInfo of all REST callers. They have the same one, so that they share sessions and child
// processes of legacy servers.
func restInfo() []byte { return implementation("REST client", ReadVersion().Version) }

// implementation returns an Implementation object of MCP.
func implementation(name, version string) []byte {
	v := wire.AppendText([]byte(`{"name":`), name)
	return append(wire.AppendText(append(v, `,"version":`...), version), '}')
}
