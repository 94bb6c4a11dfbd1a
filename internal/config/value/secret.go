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

// Hidden stands for a secret wherever one would be written.
const Hidden = "(set, hidden)"

// maxSecretFile bounds a "file:" secret, in bytes.
const maxSecretFile = 64 << 10

// Secret is a value that no output shows: every way of formatting or encoding
// it yields "(set, hidden)". [Secret.Reveal] is the one way in.
type Secret struct{ text string }

// NewSecret makes a secret of a text.
func NewSecret(text string) Secret { return Secret{text} }

// Reveal is the value itself, for the wire only.
func (s Secret) Reveal() string { return s.text }

// String hides the value.
func (s Secret) String() string { return Hidden }

// Format hides the value from every fmt verb, %#v and %x included.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, Hidden) }

// MarshalText hides the value from JSON, TOML and YAML encoders and the log.
func (s Secret) MarshalText() ([]byte, error) { return []byte(Hidden), nil }

var plainVariable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// ResolveSecret replaces "env:NAME" and "file:/path" by what they name. Its
// errors tell the reference, never a value.
func ResolveSecret(text string, lookup func(string) (string, bool)) (string, error) {
	if name, ok := strings.CutPrefix(text, "env:"); ok {
		if !plainVariable.MatchString(name) { // not repeated: somebody may have put the value itself there
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

// Refers tells whether a value of env is a reference. There also "file:./x.db"
// and "env:prod,region:eu" are usual, and mean themselves.
func Refers(text string) bool {
	name, env := strings.CutPrefix(text, "env:")
	path, file := strings.CutPrefix(text, "file:")
	return env && plainVariable.MatchString(name) || file && filepath.IsAbs(path)
}

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

// RedactURL is a URL fit for logs: without password, and without its query's
// values, where some servers expect an API key.
func RedactURL(raw string) string {
	if strings.HasPrefix(raw, UnixScheme) {
		return raw // a path, in which "?" and "#" are as good as any other character
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

// maxRoots bounds a ca_file, in bytes: the system's own are a quarter of it.
const maxRoots = 1 << 20

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

// EnvVar is one variable of a child's environment.
type EnvVar struct {
	Name  string
	Value Secret
}
