package config

import (
	"fmt"
	"os"
	"strings"
)

// Fingerprint is what can be seen of files without reading them.
func Fingerprint(files []string) string {
	var b strings.Builder
	for _, name := range files {
		info, err := os.Stat(name)
		if err != nil {
			fmt.Fprintf(&b, "%s: none\n", name)
			continue
		}
		fmt.Fprintf(&b, "%s: %d %d\n", name, info.Size(), info.ModTime().UnixNano())
	}
	return b.String()
}
