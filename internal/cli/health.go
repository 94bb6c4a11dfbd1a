package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/goccy/go-json"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/valyala/fasthttp"

	"dragoman/adapters/admin"
	"dragoman/internal/config"
	"dragoman/internal/config/value"
	"dragoman/proxy/wire"
)

const healthLong = `Ask the admin listener of a running ` + "`dragoman serve`" + ` whether it is ready to serve
(/readyz), or with --live whether the process is alive (/healthz). The exit code is
0 if so, else 1, and standard error says what is not ready. With several servers it
is ready while one of them serves (admin.ready), and the line names those that are
down. It is for health checks of containers and probes of Kubernetes, and needs no
shell.

The address is that of serve: --admin, DRAGOMAN_ADMIN_LISTEN, admin.listen of the
file that --config or DRAGOMAN_CONFIG names, 127.0.0.1:9090. The rest of the
configuration is ignored, so that a mistake in it does not fail a health check.`

const healthExample = `  dragoman health
  dragoman health --live --timeout 1s
  dragoman health --admin 127.0.0.1:9191
  dragoman health --config /etc/dragoman/config.toml`

const (
	// maxHealth is the largest answer in bytes: a line for each upstream.
	maxHealth = 1 << 20
	// mostHealthTime is the longest --timeout.
	mostHealthTime = time.Minute
)

func newHealth(p *program) *cobra.Command {
	c := &cobra.Command{
		Use:     "health [flags]",
		Short:   "Ask a running dragoman whether it is ready",
		Long:    healthLong,
		Example: healthExample,
	}
	live := c.Flags().Bool("live", false, "ask whether the process lives, not whether it is ready")
	p.asksAdmin(c, func(ctx context.Context, address string) error {
		line, err := askHealth(ctx, address, *live)
		if err != nil {
			return failed(err)
		}
		_, err = fmt.Fprintln(p.std.Out, line)
		return failed(err)
	})
	return c
}

const statusLong = `Ask the admin listener of a running ` + "`dragoman serve`" + ` for its servers, and print a line for
each: its name, its state, and if it is down why. The exit code is 0 if all are
well, else 1.

The address is found as ` + "`dragoman health`" + ` finds it.`

func newStatus(p *program) *cobra.Command {
	c := &cobra.Command{
		Use:     "status [flags]",
		Short:   "Print the state of each server of a running dragoman",
		Long:    statusLong,
		Example: "  dragoman status\n  dragoman status --json\n  dragoman status --admin 127.0.0.1:9191",
	}
	asJSON := c.Flags().Bool("json", false, "print JSON: status, and checks with name, ready, state and why")
	p.asksAdmin(c, func(ctx context.Context, address string) error {
		said, _, err := askAdmin(ctx, "status", address, "/readyz")
		if err != nil {
			return failed(err)
		}
		if err := said.print(p.std.Out, *asJSON); err != nil {
			return failed(err)
		}
		if slices.ContainsFunc(said.Checks, func(c admin.Check) bool { return !c.Ready }) {
			return &exitError{code: ExitFailed}
		}
		return nil
	})
	return c
}

// print writes a line for each check, or JSON.
func (r *readiness) print(w io.Writer, asJSON bool) error {
	if asJSON {
		data, err := json.MarshalIndentWithOption(r, "", "  ", json.DisableHTMLEscape())
		if err == nil {
			_, err = fmt.Fprintln(w, string(wire.AppendVisible(nil, data)))
		}
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "SERVER\tSTATE\t") // errors are returned by Flush
	for _, c := range r.Checks {
		_, _ = fmt.Fprintf(t, "%s\t%s\t%s\n", wire.Shown(strings.TrimPrefix(c.Name, "upstream ")), wire.Shown(c.State), wire.ShownText(c.Why))
	}
	return t.Flush()
}

// adminFlags are the flags that find the admin listener.
type adminFlags struct {
	at, file *string
	limit    *time.Duration
	most     time.Duration // the longest --timeout
}

// addAdminFlags adds the flags that find the admin listener. limit is the default of --timeout.
func addAdminFlags(flags *pflag.FlagSet, limit, most time.Duration) *adminFlags {
	f := &adminFlags{most: most,
		at:    flags.String("admin", "", "address of the admin listener, `HOST:PORT` (default 127.0.0.1:9090)"),
		file:  flags.String("config", "", "configuration `FILE` that may name it; default: $"+config.FileVariable),
		limit: flags.Duration("timeout", limit, "how long it may take to answer, `DURATION`, up to "+strings.TrimSuffix(most.String(), "0s"))}
	_ = cobra.MarkFlagFilename(flags, "config", "toml", "json", "yaml", "yml") // fails only if there is no such flag
	return f
}

// address returns the address that the flags and the environment name.
func (f *adminFlags) address(p *program) (string, error) {
	if *f.limit <= 0 || *f.limit > f.most {
		return "", usagef("--timeout: %s is out of bounds; fix: write a duration of up to %s", *f.limit, f.most)
	}
	named, _ := p.configFile(*f.file)
	return p.adminAddress(*f.at, named)
}

// asksAdmin adds to a command the flags that find the admin listener, and has it ask there.
func (p *program) asksAdmin(c *cobra.Command, ask func(ctx context.Context, address string) error) {
	flags := addAdminFlags(c.Flags(), 2*time.Second, mostHealthTime)
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usagef("unexpected argument %q; fix: write `%s`, with --admin HOST:PORT for another address", value.Shorten(args[0]), c.CommandPath())
		}
		address, err := flags.address(p)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(c.Context(), *flags.limit)
		defer cancel()
		return ask(ctx, address)
	}
}

// adminAddress returns the address of the admin listener of `dragoman serve` in the same environment. If the file cannot
// be read, it says so on standard error and returns the default.
func (p *program) adminAddress(flag, file string) (string, error) {
	address, unread, err := config.AdminAddress(p.environ, file, flag)
	if unread != nil {
		_, _ = fmt.Fprintf(p.std.Err, "dragoman: %s; asking at %s\n", unread, address)
	}
	return address, err
}

// readiness is an answer of the admin listener.
type readiness struct {
	Status string        `json:"status"`
	Checks []admin.Check `json:"checks"`
}

// askAdmin requests a state from the admin listener, for a command.
func askAdmin(ctx context.Context, command, address, path string) (said *readiness, status int, err error) {
	var req fasthttp.Request
	var resp fasthttp.Response
	req.SetRequestURI(path)
	if err := sendAdmin(ctx, address, &req, &resp, maxHealth); err != nil {
		return nil, 0, fmt.Errorf("%s: %w", command, err)
	}
	status, body := resp.StatusCode(), resp.Body()
	if json.Unmarshal(body, &said) != nil || said == nil || said.Status == "" {
		return nil, 0, fmt.Errorf("%s: %s answers with status %d like no admin listener of a dragoman; fix: name it with --admin HOST:PORT", command, address, status)
	}
	return said, status, nil
}

// askHealth requests the state from the admin listener and returns it in a line, or as an error if it is bad. It ends
// with ctx.
func askHealth(ctx context.Context, address string, live bool) (string, error) {
	path, well, ill := "/readyz", "ready", "not ready"
	if live {
		path, well, ill = "/healthz", "alive", "not well"
	}
	said, status, err := askAdmin(ctx, "health", address, path)
	if err != nil {
		return "", err
	}
	var why []string
	for _, c := range said.Checks {
		if !c.Ready {
			why = append(why, strings.TrimSuffix(strings.TrimSpace(c.Name+" "+c.State)+": "+c.Why, ": "))
		}
	}
	if status == fasthttp.StatusOK {
		if len(why) > 0 {
			well += ", without " + strings.Join(why, "; ")
		}
		return well, nil
	}
	if len(why) == 0 {
		why = append(why, fmt.Sprintf("status %d, %s", status, said.Status))
	}
	return "", fmt.Errorf("health: %s: %s", ill, strings.Join(why, "; "))
}

// reachable returns an address that reaches a listener on all interfaces from the same machine.
func reachable(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	switch host {
	case "", "0.0.0.0":
		host = "127.0.0.1"
	case "::":
		host = "::1"
	}
	return net.JoinHostPort(host, port)
}

// sendAdmin sends a request, whose URI is a path, to the admin listener on a connection of its own, and reads the answer, whose body has at
// most so many bytes.
func sendAdmin(ctx context.Context, address string, req *fasthttp.Request, resp *fasthttp.Response, most int) error {
	return askOnce(ctx, address, req, resp, most, func() error { return nil })
}

// streamAdmin is sendAdmin for an answer that read gets while it comes.
func streamAdmin(ctx context.Context, address string, req *fasthttp.Request, read func(resp *fasthttp.Response) error) error {
	var resp fasthttp.Response
	var failed error
	resp.StreamBody = true
	err := askOnce(ctx, address, req, &resp, 0, func() error { failed = read(&resp); return nil })
	return cmp.Or(failed, err)
}

func askOnce(ctx context.Context, address string, req *fasthttp.Request, resp *fasthttp.Response, most int, read func() error) error {
	if address == "off" {
		return fmt.Errorf("the admin listener is off; fix: give it an address with --admin HOST:PORT, or %s", config.AdminVariable)
	}
	err := exchange(ctx, reachable(address), req, resp, most, read)
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("%s does not answer: %w; is that the address of the admin listener (--admin)?", address, err)
	}
	return nil
}

func exchange(ctx context.Context, address string, req *fasthttp.Request, resp *fasthttp.Response, most int, read func() error) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // the answer has been read
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	req.Header.SetHost(address)
	req.SetConnectionClose()
	w := bufio.NewWriter(conn)
	if err := errors.Join(req.Write(w), w.Flush()); err != nil {
		return err
	}
	if err := resp.ReadLimitBody(bufio.NewReader(conn), most); err != nil {
		return err
	}
	return read()
}
