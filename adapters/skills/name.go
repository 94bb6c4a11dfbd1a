package skills

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

const (
	maxName   = 64 // characters of a skill's name (Agent Skills, name)
	sumLength = 8  // hexadecimal digits of the hash in a name
)

// Name returns a valid name of a skill for a text: lower-case letters of ASCII, digits and single hyphens, 64 characters at most, and none
// that Windows keeps for devices. The name of a text is always the same. Different texts may have the same name, see Names.
func Name(text string) string {
	name := slug(text)
	if name == "" || reserved(name) {
		return hashed(name, text)
	}
	return name
}

// Names returns a name for each of the texts. Texts that would share a name all get a hash, so that no name depends on their order; the same
// text twice gets the same name.
func Names(texts []string) []string {
	all, of := make([]string, len(texts)), map[string]string{}
	shared := map[string]bool{}
	for i, text := range texts {
		all[i] = slug(text)
		other, taken := of[all[i]]
		shared[all[i]] = shared[all[i]] || taken && other != text || all[i] == "" || reserved(all[i])
		of[all[i]] = text
	}
	for i, text := range texts {
		if !shared[all[i]] {
			continue
		}
		for name := all[i]; ; text += "\x00" { // another hash, if some text has this very name
			if all[i] = hashed(name, text); of[all[i]] == "" || of[all[i]] == texts[i] {
				of[all[i]] = texts[i]
				break
			}
		}
	}
	return all
}

// ValidName reports whether a text is a name by the Agent Skills format.
func ValidName(name string) bool {
	return name != "" && len(name) <= maxName && !strings.HasPrefix(name, "-") && !strings.HasSuffix(name, "-") && !strings.Contains(name, "--") &&
		strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == "" && strings.IndexFunc(name, func(r rune) bool { return !plain(r) && r != '-' }) < 0
}

func plain(r rune) bool { return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' }

// slug returns the letters of ASCII and digits of a text, with single hyphens in the place of everything else; empty if it has none.
func slug(text string) string {
	var b strings.Builder
	apart := false
	for _, r := range text {
		if r >= 'A' && r <= 'Z' {
			r += 'a' - 'A'
		}
		switch {
		case !plain(r):
			apart = b.Len() > 0
		case b.Len() >= maxName, apart && b.Len()+1 >= maxName:
			return b.String()
		default:
			if apart {
				b.WriteByte('-')
			}
			b.WriteByte(byte(r)) //nolint:gosec // it is a letter of ASCII or a digit
			apart = false
		}
	}
	return b.String()
}

// hashed returns a name with a hash of a text at its end.
func hashed(name, text string) string {
	sum := sha256.Sum256([]byte(text))
	if name == "" {
		name = "server"
	}
	return strings.TrimSuffix(name[:min(len(name), maxName-sumLength-1)], "-") + "-" + hex.EncodeToString(sum[:])[:sumLength]
}

// devices are names that no file of Windows can have, whatever its extension is.
var devices = []string{"con", "prn", "aux", "nul", "com0", "com1", "com2", "com3", "com4", "com5", "com6", "com7", "com8", "com9",
	"lpt0", "lpt1", "lpt2", "lpt3", "lpt4", "lpt5", "lpt6", "lpt7", "lpt8", "lpt9"}

func reserved(name string) bool { return slices.Contains(devices, name) }
