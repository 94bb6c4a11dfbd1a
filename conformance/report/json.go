package report

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/goccy/go-json"

	"dragoman/proxy/wire"
)

// maxReport is the maximum size of a report that is read, in bytes.
const maxReport = 256 << 20

// JSON writes the report as JSON, which Read reads. docs/conformance.md has its structure.
func (r *Report) JSON(w io.Writer) error { return writeJSON(w, r) }

func writeJSON(w io.Writer, v any) error {
	data, err := json.MarshalIndentWithOption(v, "", "  ", json.DisableHTMLEscape())
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	_, err = w.Write(append(wire.AppendVisible(make([]byte, 0, len(data)+1), data), '\n'))
	return err
}

var errNoReport = errors.New("is no report that `dragoman conformance --json=FILE` has written")

// Read reads a report that was written as JSON.
func Read(in io.Reader) (*Report, error) {
	data, err := io.ReadAll(io.LimitReader(in, maxReport+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxReport {
		return nil, fmt.Errorf("is larger than %d MiB", maxReport>>20)
	}
	var r Report
	if err := json.Unmarshal(bytes.TrimSpace(data), &r); err != nil || r.Format == 0 {
		return nil, errNoReport
	}
	if r.Format != Format {
		return nil, fmt.Errorf("has the format %d, and this Dragoman reads %d; fix: make both reports with the same Dragoman", r.Format, Format)
	}
	return &r, nil
}
