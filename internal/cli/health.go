package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/goccy/go-json"
	"github.com/spf13/cobra"
	"github.com/valyala/fasthttp"

	"dragoman/adapters/admin"
	"dragoman/internal/config"
	"dragoman/internal/config/value"
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
	flags := c.Flags()
	at := flags.String("admin", "", "address of the admin listener, `HOST:PORT` (default 127.0.0.1:9090)")
	file := flags.String("config", "", "configuration `FILE` that may name it; default: $"+config.FileVariable)
	live := flags.Bool("live", false, "ask whether the process lives, not whether it is ready")
	limit := flags.Duration("timeout", 2*time.Second, "how long it may take to answer, `DURATION`, up to 1m")
	_ = c.MarkFlagFilename("config", "toml", "json", "yaml", "yml") // fails only if there is no such flag
	c.RunE = func(c *cobra.Command, args []string) error {
		switch {
		case len(args) > 0:
			return usagef("unexpected argument %q; fix: write `dragoman health`, with --admin HOST:PORT for another address", value.Shorten(args[0]))
		case *limit <= 0 || *limit > mostHealthTime:
			return usagef("--timeout: %s is out of bounds; fix: write a duration of up to %s", *limit, mostHealthTime)
		}
		named, _ := p.configFile(*file)
		address, err := p.adminAddress(*at, named)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(c.Context(), *limit)
		defer cancel()
		line, err := askHealth(ctx, address, *live)
		if err != nil {
			return failed(err)
		}
		_, err = fmt.Fprintln(p.std.Out, line)
		return failed(err)
	}
	return c
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

// askHealth requests the state from the admin listener and returns it in a line, or as an error if it is bad. It ends
// with ctx.
func askHealth(ctx context.Context, address string, live bool) (string, error) {
	if address == "off" {
		return "", errors.New("health: the admin listener is off; fix: give it an address with --admin HOST:PORT, or " + config.AdminVariable)
	}
	path, well, ill := "/readyz", "ready", "not ready"
	if live {
		path, well, ill = "/healthz", "alive", "not well"
	}
	status, body, err := getAdmin(ctx, reachable(address), path)
	if err != nil {
		return "", fmt.Errorf("health: %s does not answer: %w; is that the address of the admin listener (--admin)?", address, err)
	}
	var said struct {
		Status string        `json:"status"`
		Checks []admin.Check `json:"checks"`
	}
	if json.Unmarshal(body, &said) != nil || said.Status == "" {
		return "", fmt.Errorf("health: %s answers with status %d like no admin listener of a dragoman; fix: name it with --admin HOST:PORT", address, status)
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

// getAdmin makes one request on its own connection.
func getAdmin(ctx context.Context, address, path string) (status int, body []byte, err error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = conn.Close() }() // the answer has been read
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	var req fasthttp.Request
	req.SetRequestURI("http://" + address + path)
	req.SetConnectionClose()
	w := bufio.NewWriter(conn)
	if err := errors.Join(req.Write(w), w.Flush()); err != nil {
		return 0, nil, err
	}
	var resp fasthttp.Response
	if err := resp.ReadLimitBody(bufio.NewReader(conn), maxHealth); err != nil {
		if ctx.Err() != nil {
			return 0, nil, ctx.Err()
		}
		return 0, nil, err
	}
	return resp.StatusCode(), resp.Body(), nil
}
