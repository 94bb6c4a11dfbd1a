package report

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// badge is the JSON for the endpoint badge of shields.io.
type badge struct {
	SchemaVersion int    `json:"schemaVersion"`
	Label         string `json:"label"`
	Message       string `json:"message"`
	Color         string `json:"color"`
	IsError       bool   `json:"isError,omitempty"`
}

func (r *Report) badge() badge {
	t := r.Totals
	b := badge{SchemaVersion: 1, Label: "MCP conformance", Color: "brightgreen", Message: itoa(t.Passed) + " passed"}
	wrong := 0
	for i := range r.Findings {
		if r.Findings[i].Fails {
			wrong++
		}
	}
	switch {
	case wrong > 0:
		b.Message, b.Color, b.IsError = itoa(wrong)+" failed, "+b.Message, "red", true
	case r.Ended != "" || t.Stale > 0 || len(r.Findings) == 0:
		b.Message, b.Color, b.IsError = "not finished", "lightgrey", true
		if t.Stale > 0 && r.Ended == "" {
			b.Message, b.Color = itoa(t.Stale)+" stale, "+itoa(t.Passed)+" passed", "orange"
		}
	case t.Expected > 0:
		b.Message, b.Color = b.Message+", "+itoa(t.Expected)+" known", "yellow"
	case t.Warnings > 0:
		b.Message, b.Color = b.Message+", "+itoa(t.Warnings)+" warnings", "yellowgreen"
	}
	return b
}

// Badge writes a badge as JSON for shields.io.
func (r *Report) Badge(w io.Writer) error { return writeJSON(w, r.badge()) }

// colours are the colours of badges, by their names at shields.io.
var colours = map[string]string{"brightgreen": "#2b8a3e", "yellowgreen": "#5c7c1f", "yellow": "#8a6d00", "orange": "#c2410c", "red": "#c92a2a", "lightgrey": "#6b7280"}

// BadgeSVG writes a badge as an image.
func (r *Report) BadgeSVG(w io.Writer) error {
	b := r.badge()
	left, right := textPixels(b.Label)+12, textPixels(b.Message)+12
	title := escape(b.Label + ": " + b.Message)
	half := func(x, width int, text, fill string) string {
		return fmt.Sprintf(`<rect x="%d" width="%d" height="20" fill="%s"/><text x="%d" y="14" textLength="%d" lengthAdjust="spacingAndGlyphs">%s</text>`,
			x, width, fill, x+6, width-12, escape(text))
	}
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="20" role="img" aria-label="%s"><title>%s</title>`+
		`<clipPath id="c"><rect width="%[1]d" height="20" rx="3"/></clipPath>`+
		`<g clip-path="url(#c)" fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">%[4]s%[5]s</g></svg>`+"\n",
		left+right, title, title, half(0, left, b.Label, "#444c56"), half(left, right, b.Message, colours[b.Color]))
	return err
}

// textPixels estimates the width of a text in the font of badges.
func textPixels(text string) int { return utf8.RuneCountInString(text) * 13 / 2 }

func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // into memory
	return b.String()
}
