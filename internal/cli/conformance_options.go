package cli

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/net/http/httpguts"

	"dragoman/conformance/checks"
	"dragoman/conformance/intermediary"
	"dragoman/conformance/mock"
	suitepeer "dragoman/conformance/peer"
	suitereport "dragoman/conformance/report"
	"dragoman/internal/app/logging"
	"dragoman/internal/config"
	"dragoman/internal/config/field"
	"dragoman/internal/config/value"
)

// ConformanceOptions are the checked options of `dragoman conformance`.
type ConformanceOptions struct {
	// URLs are the server's addresses. If there are none, Command is run: a server, with Client a client, with Intermediary
	// an intermediary.
	URLs                 []string
	Command              []string
	Client, Intermediary bool
	// Official runs the official suite too. OfficialCommand starts it; nil means npx.
	Official        bool
	OfficialCommand []string
	// Fronts are the URLs at which clients reach an intermediary, Fixture is the command of the server behind it.
	Fronts, Fixture []string
	// Headers are sent with every request and never shown in reports.
	Headers suitepeer.Fields
	// TLS is nil for the system's roots.
	TLS *tls.Config
	// Timeout limits the wait for an answer. Jobs is how many checks run at a time.
	Timeout time.Duration
	Jobs    int
	// Verbose shows all evidence. With Strict, a violated SHOULD fails the run.
	Verbose, Strict bool
	// Expected is the file of expected failures; "" means none.
	Expected string
	// Colour reports whether output to w is coloured.
	Colour func(w io.Writer) bool

	choice  *choice
	reports []conformanceReport
}

// conformanceReport is one report to write.
type conformanceReport struct {
	path  string // "-" is standard output
	flag  string
	write func(r *suitereport.Report, w io.Writer) error
}

// reportFiles returns the reports that the flags name.
func (f *conformanceFlags) reportFiles() (files []conformanceReport, err error) {
	badge := (*suitereport.Report).Badge
	if strings.EqualFold(filepath.Ext(f.badged), ".svg") {
		badge = (*suitereport.Report).BadgeSVG
	}
	taken := make(map[string]string)
	for _, one := range []conformanceReport{{f.json, "json", (*suitereport.Report).JSON}, {f.junit, "junit", (*suitereport.Report).JUnit}, {f.sarif, "sarif", (*suitereport.Report).SARIF},
		{f.markdown, "markdown", (*suitereport.Report).Markdown}, {f.html, "html", (*suitereport.Report).HTML}, {f.badged, "badge", badge}} {
		if one.path == "" {
			continue
		}
		if other := taken[one.path]; other != "" {
			return nil, usagef("both --%s and --%s write to %s; fix: name another file", other, one.flag, one.path)
		}
		taken[one.path] = one.flag
		files = append(files, one)
	}
	return files, nil
}

// conformanceOptions checks the flags and arguments of a test.
func (p *program) conformanceOptions(c *cobra.Command, f *conformanceFlags, args []string) (*ConformanceOptions, error) {
	opt := &f.ConformanceOptions
	opt.OfficialCommand = strings.Fields(f.officialCommand)
	opt.Colour = func(w io.Writer) bool { return logging.Colourful(w, p.environ) }
	if err := cmp.Or(misplacedFile(f.json, args), opt.target(c, args)); err != nil {
		return nil, err
	}
	switch {
	case opt.Jobs < 1 || opt.Jobs > mostJobs:
		return nil, usagef("--jobs: %d is out of bounds; fix: write 1 to %d", opt.Jobs, mostJobs)
	case opt.Timeout < leastAnswerTime || opt.Timeout > mostAnswerTime:
		return nil, usagef("--timeout: %s is out of bounds; fix: write %s to %s", opt.Timeout, leastAnswerTime, mostAnswerTime)
	case opt.linesOnly() && len(f.header) > 0:
		return nil, usagef("--header is for URLs, and a COMMAND or a socket is given; fix: leave it out")
	case opt.linesOnly() && f.caFile != "":
		return nil, usagef("--ca-file is for URLs, and a COMMAND or a socket is given; fix: leave it out")
	}
	all := checks.All()
	if opt.Client {
		all = mock.Checks()
	}
	var err error
	if opt.choice, err = f.choose(all); err != nil {
		return nil, err
	}
	if opt.Client {
		if err := mock.Check(opt.Command, opt.choice.faces); err != nil {
			return nil, usagef("%w", err)
		}
	}
	if opt.Intermediary {
		if err := opt.behind(); err != nil {
			return nil, err
		}
	}
	if opt.reports, err = f.reportFiles(); err != nil {
		return nil, err
	}
	opt.Headers, opt.TLS, err = p.access(f.header, f.caFile)
	return opt, err
}

// access returns how URLs are reached: with the headers of --header, and the roots of --ca-file.
func (p *program) access(headers []string, caFile string) (fields suitepeer.Fields, roots *tls.Config, err error) {
	named, err := headerFields(headers)
	if err != nil {
		return nil, nil, err
	}
	for _, one := range named {
		field, err := p.resolve(one)
		if err != nil {
			return nil, nil, err
		}
		fields = append(fields, field)
	}
	if caFile != "" {
		if roots, err = trusting(caFile); err != nil {
			return nil, nil, failed(fmt.Errorf("--ca-file: %s", config.FullText(err)))
		}
	}
	return fields, roots, nil
}

// target parses the arguments `URL... | -- COMMAND...`.
func (o *ConformanceOptions) target(c *cobra.Command, args []string) error {
	urls, command, err := splitTarget(c, args)
	if err != nil || command != nil {
		o.Command = command
		return err
	}
	path := c.CommandPath()
	if o.Client || o.Intermediary {
		return usagef("the COMMAND to be tested is missing; fix: write it after --, as in `%s --client -- COMMAND`", path)
	}
	if len(urls) == 0 {
		return usagef("a URL or a COMMAND is missing; fix: write `%s https://HOST/PATH` or `%s -- COMMAND`", path, path)
	}
	for i, text := range urls {
		if err := checkDoor(text, path); err != nil {
			return err
		}
		if slices.Contains(urls[:i], text) {
			return usagef("%s is given twice; fix: leave one out", mistaken(text))
		}
	}
	o.URLs = urls
	return nil
}

// checkDoor checks a server's URL.
func checkDoor(text, path string) error {
	if !isURL(text) {
		return usagef("%s is not a URL; fix: write `%s https://HOST/PATH`, or to start a command `%s -- COMMAND`", mistaken(text), path, path)
	}
	if socket, err := field.CheckSocket(text); err != nil {
		return usagef("%s %s", mistaken(text), config.FullText(err))
	} else if socket {
		return nil
	}
	return checkHTTP(text, "unix:/PATH or tcp://HOST:PORT for lines over a socket, or test the server as a COMMAND")
}

// checkHTTP checks the URL of a server over HTTP. others says how a server that is reached otherwise is named.
func checkHTTP(text, others string) error {
	u, err := url.Parse(text)
	switch {
	case err == nil && u.Scheme != "http" && u.Scheme != "https":
		return usagef("%s is reached neither over http nor over https; fix: write https://HOST/PATH, %s", mistaken(text), others)
	case err != nil || u.Host == "":
		return usagef("%s is not a URL of a server; fix: write https://HOST/PATH", mistaken(text))
	}
	return nil
}

// linesOnly reports whether nothing is reached over HTTP: only a command, or sockets.
func (o *ConformanceOptions) linesOnly() bool {
	return !o.Intermediary && !slices.ContainsFunc(o.URLs, func(u string) bool { _, _, socket := (&config.Upstream{URL: u}).Socket(); return !socket })
}

// behind checks the command of an intermediary, and sets the server behind it: the built-in one.
func (o *ConformanceOptions) behind() error {
	if _, err := intermediary.Check(o.Command); err != nil {
		return usagef("%w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return failed(fmt.Errorf("conformance: %w", err))
	}
	o.Fixture = []string{self, "demo", "--log-level", "error"}
	return nil
}

// resolve returns a header field with its value. Its errors never repeat the value.
func (p *program) resolve(field headerField) (suitepeer.Field, error) {
	content, err := value.ResolveSecret(field.value, p.lookup)
	if err != nil {
		return suitepeer.Field{}, failed(fmt.Errorf("--header %s: %s", field.name, config.FullText(err)))
	}
	if !httpguts.ValidHeaderFieldValue(content) {
		return suitepeer.Field{}, failed(fmt.Errorf("--header %s: the value has characters that none may have; fix: write it in one line", field.name))
	}
	return suitepeer.Field{Name: field.name, Value: content}, nil
}

// trusting returns a TLS configuration that trusts the roots in a file.
func trusting(path string) (*tls.Config, error) {
	if err := value.CheckRoots(path); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	c := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	if !c.RootCAs.AppendCertsFromPEM(data) {
		return nil, errors.New("the file has changed and holds no PEM certificate any more")
	}
	return c, nil
}
