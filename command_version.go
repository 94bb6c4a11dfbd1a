package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/goccy/go-json"
	"github.com/spf13/cobra"
)

// versionInfo is what the binary knows of itself.
type versionInfo struct {
	Version  string `json:"version"` // of the module; "devel" for a build without one
	Revision string `json:"revision,omitempty"`
	Time     string `json:"time,omitempty"` // of the revision, RFC 3339
	Modified bool   `json:"modified"`       // the tree was not clean
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// released is the version that a release is built as, by -ldflags "-X main.released=v1.2.3": its tag may come after it has been tried.
var released string

func readVersion() versionInfo {
	v := versionInfo{Version: "devel", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
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
func (v versionInfo) String() string {
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

func newVersion(p *program) *cobra.Command {
	c := &cobra.Command{
		Use:     "version [flags]",
		Short:   "Print the version",
		Long:    "Print the version and revision of this binary, and what it was built with.",
		Example: "  dragoman version\n  dragoman version --json",

		DisableFlagsInUseLine: true,
	}
	asJSON := c.Flags().Bool("json", false, "print JSON")
	c.RunE = func(_ *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usagef("unexpected argument %q; fix: write `dragoman version`", shorten(args[0]))
		}
		line := readVersion().String()
		if *asJSON {
			data, err := json.Marshal(readVersion())
			if err != nil {
				return failed(fmt.Errorf("version: %w", err))
			}
			line = string(data)
		}
		_, err := fmt.Fprintln(p.std.Out, line)
		return failed(err)
	}
	return c
}
