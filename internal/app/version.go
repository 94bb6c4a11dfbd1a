package app

import (
	"runtime"
	"runtime/debug"
)

// VersionInfo is what the binary knows of itself.
type VersionInfo struct {
	Version  string `json:"version"` // of the module; "devel" for a build without one
	Revision string `json:"revision,omitempty"`
	Time     string `json:"time,omitempty"` // of the revision, RFC 3339
	Modified bool   `json:"modified"`       // the tree was not clean
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// released is the version that a release is built as, by -ldflags "-X dragoman/internal/app.released=v1.2.3": its tag may come after it has been tried.
var released string

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

// shortRevision is how much of a revision people read.
const shortRevision = 12

// String is one line for people.
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
