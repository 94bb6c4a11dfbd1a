// Package content has the JSON of which the demonstration server's messages are made: objects, content blocks, and the
// picture and the sound in them.
package content

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"image"
	"image/color"
	"image/png"
	"math"
	"strings"

	"dragoman/proxy/wire"
)

// Complete is the resultType of a final result.
const Complete = "complete"

var errMade = errors.New("everything: what was made here is no message")

// Scan reads a message that the server has made.
func Scan(raw []byte) (wire.Message, error) {
	m, err := wire.Scan(raw)
	if err != nil {
		err = errors.Join(errMade, err)
	}
	return m, err
}

// Quote returns text as a JSON string.
func Quote(text string) string { return string(wire.AppendText(nil, text)) }

// Object returns a JSON object of names and raw JSON values, in pairs. Members with an empty value are left out.
func Object(pairs ...string) string {
	var b strings.Builder
	b.WriteByte('{')
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			continue
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		b.WriteString(Quote(pairs[i]))
		b.WriteByte(':')
		b.WriteString(pairs[i+1])
	}
	b.WriteByte('}')
	return b.String()
}

// Whole returns the span of all of raw.
func Whole(raw []byte) wire.Span {
	return wire.Span{From: 0, To: uint32(len(raw))} //nolint:gosec // part of a message
}

// IsArray reports whether a value is an array.
func IsArray(raw []byte, at wire.Span) bool { return at.Present() && raw[at.From] == '[' }

// Text returns a text block.
func Text(text string) string { return `{"type":"text","text":` + Quote(text) + `}` }

// Image returns a PNG block of base64 data.
func Image(data string) string {
	return `{"type":"image","data":"` + data + `","mimeType":"image/png"}`
}

// Audio returns a WAV block of base64 data.
func Audio(data string) string {
	return `{"type":"audio","data":"` + data + `","mimeType":"audio/wav"}`
}

// Link returns a resource_link block.
func Link(uri, name, mime string) string {
	return `{"type":"resource_link",` + Object("uri", Quote(uri), "name", Quote(name), "mimeType", Quote(mime))[1:]
}

// Embedded returns a block that has a resource of text in it.
func Embedded(uri, mime, text string) string {
	return `{"type":"resource","resource":` + Object("uri", Quote(uri), "mimeType", Quote(mime), "text", Quote(text)) + `}`
}

// Of returns the content member of a tool's result.
func Of(blocks ...string) string { return `"content":[` + strings.Join(blocks, ",") + `]` }

// PNG returns a PNG of 8 by 8 pixels, red on white, as base64.
func PNG() string {
	img := image.NewPaletted(image.Rect(0, 0, 8, 8), color.Palette{color.White, color.RGBA{R: 200, G: 0, B: 0, A: 255}})
	for i := range 8 {
		img.SetColorIndex(i, i, 1)
		img.SetColorIndex(7-i, i, 1)
	}
	var b bytes.Buffer
	_ = png.Encode(&b, img) // writing to a bytes.Buffer never fails
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

// WAV returns a WAV of 10 ms of 400 Hz: 80 samples of 8 bits at 8 kHz, one channel, as base64.
func WAV() string {
	const rate, samples = 8000, 80
	le := binary.LittleEndian
	b := le.AppendUint32([]byte("RIFF"), 36+samples)
	b = le.AppendUint32(append(b, "WAVEfmt "...), 16)
	b = le.AppendUint16(b, 1) // PCM
	b = le.AppendUint16(b, 1) // channels
	b = le.AppendUint32(b, rate)
	b = le.AppendUint32(b, rate) // bytes a second
	b = le.AppendUint16(b, 1)    // bytes a sample
	b = le.AppendUint16(b, 8)    // bits a sample
	b = le.AppendUint32(append(b, "data"...), samples)
	for i := range samples {
		b = append(b, byte(128+100*math.Sin(2*math.Pi*400*float64(i)/rate)))
	}
	return base64.StdEncoding.EncodeToString(b)
}
