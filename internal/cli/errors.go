package cli

import (
	"cmp"
	_ "embed"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/goccy/go-json"
	"github.com/spf13/cobra"

	"dragoman/adapters/modern"
	"dragoman/internal/config/value"
	"dragoman/proxy"
)

// errorTemplates holds the messages of each row as they stand in the code. TestErrorTemplates compares them.
//
//go:embed error_templates.json
var errorTemplates string

// errorHelp holds the cause and the remedy of each row, from docs/troubleshooting.md. TestErrorTemplatesInTheGuide compares them.
//
//go:embed error_help.json
var errorHelp string

// errorRow is one row of the printed error table (seed 003, McpErrorMapping).
type errorRow struct {
	InternalCode string             `json:"internalCode"` // error.data.code
	JSONRPCCode  int                `json:"jsonRpcCode"`
	HTTPStatus   int                `json:"httpStatus"`     // to modern clients over HTTP
	EnvelopeCode proxy.EnvelopeCode `json:"envelopeCode"`   // to REST callers
	RESTStatus   int                `json:"envelopeStatus"` // to REST callers
	Retryable    bool               `json:"retryable"`
	Blame        string             `json:"blame"` // client, upstream or dragoman
	Help         string             `json:"help"`  // cause and remedy
	Templates    []string           `json:"messageTemplates"`
	DataSchema   json.RawMessage    `json:"dataSchema,omitempty"` // of error.data
}

// errorRows returns the whole table.
func errorRows() ([]errorRow, error) {
	var templates map[string][]string
	var help map[string]string
	if err := cmp.Or(json.Unmarshal([]byte(errorTemplates), &templates), json.Unmarshal([]byte(errorHelp), &help)); err != nil {
		return nil, fmt.Errorf("errors: %w", err)
	}
	var rows []errorRow
	for _, f := range proxy.Faults() {
		status := f.Status
		if status == 0 {
			status = modern.Status(f.Code)
		}
		row := errorRow{InternalCode: f.Name, JSONRPCCode: f.Code, HTTPStatus: status, EnvelopeCode: f.Envelope, RESTStatus: f.RESTStatus(),
			Retryable: f.Retryable, Blame: f.Blame, Help: help[f.Name], Templates: templates[f.Name]}
		if schema := f.DataSchema(); schema != "" {
			row.DataSchema = json.RawMessage(schema)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func newErrors(p *program) *cobra.Command {
	c := &cobra.Command{
		Use:   "errors [NAME...] [flags]",
		Short: "Print every error, and how each kind of client sees it",
		Long: `Print the error table: every failure of Dragoman's own or of the way to a server, with its name (error.data.code),
JSON-RPC code, HTTP status, the code and status of the REST envelope, whether the same request may be sent again, and
who is at fault. With names, it prints those rows with cause and remedy, their messages and the schema of error.data.`,
		Example: "  dragoman errors\n  dragoman errors upstream_lost\n  dragoman errors --json",
	}
	asJSON := c.Flags().Bool("json", false, "print JSON, with causes, messages and schemas of error.data")
	c.RunE = func(_ *cobra.Command, args []string) error {
		rows, err := errorRows()
		if err != nil {
			return failed(err)
		}
		if len(args) > 0 {
			if rows, err = pickRows(rows, args); err != nil {
				return err
			}
		}
		switch {
		case *asJSON:
			data, err := json.MarshalIndentWithOption(rows, "", "  ", json.DisableHTMLEscape())
			if err != nil {
				return failed(fmt.Errorf("errors: %w", err))
			}
			_, err = fmt.Fprintln(p.std.Out, string(data))
			return failed(err)
		case len(args) > 0:
			return failed(describeErrors(p.std.Out, rows))
		}
		return failed(listErrors(p.std.Out, rows))
	}
	return c
}

func pickRows(rows []errorRow, names []string) (picked []errorRow, err error) {
	for _, name := range names {
		found := false
		for _, r := range rows {
			if r.InternalCode == name || string(r.EnvelopeCode) == name || fmt.Sprint(r.JSONRPCCode) == name {
				picked, found = append(picked, r), true
			}
		}
		if !found {
			return nil, usagef("no error is called %q; fix: `dragoman errors` lists them", value.Shorten(name))
		}
	}
	return picked, nil
}

func listErrors(w io.Writer, rows []errorRow) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "NAME\tJSON-RPC\tHTTP\tENVELOPE\tHTTP\tRETRYABLE\tFAULT OF") // errors are returned by Flush
	for _, r := range rows {
		_, _ = fmt.Fprintf(t, "%s\t%d\t%d\t%s\t%d\t%s\t%s\n", r.InternalCode, r.JSONRPCCode, r.HTTPStatus, r.EnvelopeCode, r.RESTStatus, yesNo(r.Retryable), r.Blame)
	}
	return t.Flush()
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func describeErrors(w io.Writer, rows []errorRow) error {
	var b strings.Builder
	for i, r := range rows {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s\n  %s\n\n  JSON-RPC %d, HTTP %d; envelope %s, HTTP %d; retryable: %s; fault of: %s\n  messages:\n", r.InternalCode, strings.ReplaceAll(r.Help, "\n", "\n  "), r.JSONRPCCode,
			r.HTTPStatus, r.EnvelopeCode, r.RESTStatus, yesNo(r.Retryable), r.Blame)
		for _, m := range r.Templates {
			fmt.Fprintf(&b, "    %s\n", m)
		}
		if r.DataSchema != nil {
			fmt.Fprintf(&b, "  error.data: %s\n", r.DataSchema)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
