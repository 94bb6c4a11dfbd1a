package value

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

// Hidden replaces a secret in all output.
const Hidden = "(set, hidden)"

// maxSecretFile bounds the file of a "file:" reference, in bytes.
const maxSecretFile = 64 << 10

// Secret is a value that no output shows: every way of formatting or encoding it yields "(set, hidden)". Only
// [Secret.Reveal] returns the value.
type Secret struct{ text string }

// NewSecret returns text as a secret.
func NewSecret(text string) Secret { return Secret{text} }

// Reveal returns the value itself, for the wire only.
func (s Secret) Reveal() string { return s.text }

// String hides the value.
func (s Secret) String() string { return Hidden }

// Format hides the value from every fmt verb, %#v and %x included.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, Hidden) }

// MarshalText hides the value from JSON, TOML and YAML encoders and the log.
func (s Secret) MarshalText() ([]byte, error) { return []byte(Hidden), nil }

var plainVariable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// IsVariable reports whether a text is a name that "env:" can be followed by.
func IsVariable(text string) bool { return plainVariable.MatchString(text) }

// ResolveSecret replaces "env:NAME" and "file:/path" by the value that they refer to. lookup reads environment
// variables. Errors name the reference, never the value.
func ResolveSecret(text string, lookup func(string) (string, bool)) (string, error) {
	if name, ok := strings.CutPrefix(text, "env:"); ok {
		if !plainVariable.MatchString(name) { // not repeated: it may be the value itself
			return "", &Problem{What: "\"env:\" is not followed by the name of a variable", Fix: "write \"env:NAME\""}
		}
		value, set := lookup(name)
		if !set || value == "" {
			return "", &Problem{
				What: fmt.Sprintf("the environment variable %q it refers to is not set", name),
				Fix:  "set the variable, or refer to a file with \"file:/path\"",
			}
		}
		return value, nil
	}
	if path, ok := strings.CutPrefix(text, "file:"); ok {
		return ReadSecret(path)
	}
	return text, nil
}

// Refers reports whether a value of env is a reference. Values such as "file:./x.db" and "env:prod,region:eu" are
// common there and are taken as they are.
func Refers(text string) bool {
	name, env := strings.CutPrefix(text, "env:")
	path, file := strings.CutPrefix(text, "file:")
	return env && plainVariable.MatchString(name) || file && filepath.IsAbs(path)
}

// inText matches references to variables within a text.
var inText = regexp.MustCompile(`\$\{([^{}]*)\}`)

// Contains reports whether a text has a reference ${NAME} in it.
func Contains(text string) bool { return inText.MatchString(text) }

// IsReference reports whether a text is a reference ${NAME} and nothing else.
func IsReference(text string) bool {
	at := inText.FindStringIndex(text)
	return at != nil && at[0] == 0 && at[1] == len(text)
}

// Expand replaces each ${NAME} of a text by what resolve returns for "env:NAME". The error is the first one of resolve.
func Expand(text string, resolve func(ref string) (string, error)) (string, error) {
	var failed error
	resolved := inText.ReplaceAllStringFunc(text, func(ref string) string {
		ref, err := resolve("env:" + ref[2:len(ref)-1])
		if failed == nil {
			failed = err
		}
		return ref
	})
	if failed != nil {
		return "", failed
	}
	return resolved, nil
}

// ReadSecret returns the content of a file without the line ends at its end. path must be absolute, and the file must
// be neither empty nor larger than 64 KiB.
func ReadSecret(path string) (string, error) {
	if !filepath.IsAbs(path) {
		return "", &Problem{What: fmt.Sprintf("the file %q it refers to is not an absolute path", path), Fix: "write \"file:/path\""}
	}
	f, err := os.Open(path)
	if err != nil {
		return "", &Problem{What: fmt.Sprintf("the file it refers to cannot be read: %v", err), Fix: "create the file, or make it readable"}
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxSecretFile+1))
	if err != nil {
		return "", &Problem{What: fmt.Sprintf("the file it refers to cannot be read: %v", err), Fix: "make it a readable file"}
	}
	if len(data) > maxSecretFile {
		return "", &Problem{What: fmt.Sprintf("the file %q it refers to is larger than %d bytes", path, maxSecretFile), Fix: "refer to a file that holds only the value"}
	}
	value := strings.TrimRight(string(data), "\r\n")
	if value == "" {
		return "", &Problem{What: fmt.Sprintf("the file %q it refers to is empty", path), Fix: "write the value into it"}
	}
	return value, nil
}

// RedactURL returns a URL for logs: without its password, and without its query, in which some servers expect an API
// key.
func RedactURL(raw string) string {
	if strings.HasPrefix(raw, UnixScheme) {
		return raw // a path, in which "?" and "#" have no meaning
	}
	u, err := url.Parse(raw)
	if err != nil {
		return Hidden // what cannot be parsed cannot be redacted
	}
	shown := *u
	shown.RawQuery, shown.ForceQuery = "", false
	text := shown.Redacted()
	if u.RawQuery != "" {
		text += "?(hidden)"
	}
	return text
}

// maxRoots bounds a ca_file, in bytes: four times the size of a system's own roots.
const maxRoots = 1 << 20

// CheckRoots checks that a ca_file holds a PEM certificate. It accepts an empty path.
func CheckRoots(path string) error {
	if path == "" {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return &Problem{What: fmt.Sprintf("%q cannot be read: %v", Shorten(path), Reason(err)), Fix: "check the path and the permissions"}
	}
	defer func() { _ = f.Close() }()
	pem, err := io.ReadAll(io.LimitReader(f, maxRoots))
	if err != nil || !x509.NewCertPool().AppendCertsFromPEM(pem) {
		return &Problem{What: fmt.Sprintf("%q holds no PEM certificate", Shorten(path)), Fix: "write the roots as PEM (-----BEGIN CERTIFICATE-----)"}
	}
	return nil
}

// NamedSecret is a header, or a variable of a child's environment.
type NamedSecret struct {
	Name  string
	Value Secret
}
