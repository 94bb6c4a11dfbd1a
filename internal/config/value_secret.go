package config

import (
	"crypto/x509"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// hidden stands for a secret wherever one would be written.
const hidden = "(set, hidden)"

// maxSecretFile bounds a "file:" secret, in bytes.
const maxSecretFile = 64 << 10

// Secret is a value that no output shows: every way of formatting or encoding
// it yields "(set, hidden)". [Secret.Reveal] is the one way in.
type Secret struct{ value string }

// Reveal is the value itself, for the wire only.
func (s Secret) Reveal() string { return s.value }

// String hides the value.
func (s Secret) String() string { return hidden }

// Format hides the value from every fmt verb, %#v and %x included.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, hidden) }

// MarshalText hides the value from JSON, TOML and YAML encoders and the log.
func (s Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

var plainVariable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// ResolveSecret replaces "env:NAME" and "file:/path" by what they name. Its
// errors tell the reference, never a value.
func ResolveSecret(text string, lookup func(string) (string, bool)) (string, error) {
	if name, ok := strings.CutPrefix(text, "env:"); ok {
		if !plainVariable.MatchString(name) { // not repeated: somebody may have put the value itself there
			return "", &problem{what: "\"env:\" is not followed by the name of a variable", fix: "write \"env:NAME\""}
		}
		value, set := lookup(name)
		if !set || value == "" {
			return "", &problem{
				what: fmt.Sprintf("the environment variable %q it refers to is not set", name),
				fix:  "set the variable, or refer to a file with \"file:/path\"",
			}
		}
		return value, nil
	}
	if path, ok := strings.CutPrefix(text, "file:"); ok {
		return ReadSecret(path)
	}
	return text, nil
}

// refers tells whether a value of env is a reference. There also "file:./x.db"
// and "env:prod,region:eu" are usual, and mean themselves.
func refers(text string) bool {
	name, env := strings.CutPrefix(text, "env:")
	path, file := strings.CutPrefix(text, "file:")
	return env && plainVariable.MatchString(name) || file && filepath.IsAbs(path)
}

func ReadSecret(path string) (string, error) {
	if !filepath.IsAbs(path) {
		return "", &problem{what: fmt.Sprintf("the file %q it refers to is not an absolute path", path), fix: "write \"file:/path\""}
	}
	f, err := os.Open(path)
	if err != nil {
		return "", &problem{what: fmt.Sprintf("the file it refers to cannot be read: %v", err), fix: "create the file, or make it readable"}
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxSecretFile+1))
	if err != nil {
		return "", &problem{what: fmt.Sprintf("the file it refers to cannot be read: %v", err), fix: "make it a readable file"}
	}
	if len(data) > maxSecretFile {
		return "", &problem{what: fmt.Sprintf("the file %q it refers to is larger than %d bytes", path, maxSecretFile), fix: "refer to a file that holds only the value"}
	}
	value := strings.TrimRight(string(data), "\r\n")
	if value == "" {
		return "", &problem{what: fmt.Sprintf("the file %q it refers to is empty", path), fix: "write the value into it"}
	}
	return value, nil
}

// RedactURL is a URL fit for logs: without password, and without its query's
// values, where some servers expect an API key.
func RedactURL(raw string) string {
	if strings.HasPrefix(raw, UnixScheme) {
		return raw // a path, in which "?" and "#" are as good as any other character
	}
	u, err := url.Parse(raw)
	if err != nil {
		return hidden // what cannot be parsed cannot be redacted
	}
	shown := *u
	shown.RawQuery, shown.ForceQuery = "", false
	text := shown.Redacted()
	if u.RawQuery != "" {
		text += "?(hidden)"
	}
	return text
}

// maxRoots bounds a ca_file, in bytes: the system's own are a quarter of it.
const maxRoots = Mib

func CheckRoots(path string) error {
	if path == "" {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return &problem{what: fmt.Sprintf("%q cannot be read: %v", Shorten(path), Reason(err)), fix: "check the path and the permissions"}
	}
	defer func() { _ = f.Close() }()
	pem, err := io.ReadAll(io.LimitReader(f, maxRoots))
	if err != nil || !x509.NewCertPool().AppendCertsFromPEM(pem) {
		return &problem{what: fmt.Sprintf("%q holds no PEM certificate", Shorten(path)), fix: "write the roots as PEM (-----BEGIN CERTIFICATE-----)"}
	}
	return nil
}
