package everything

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"image"
	"image/color"
	"image/png"
	"math"
	"strings"
)

func textBlock(text string) string { return `{"type":"text","text":` + quote(text) + `}` }

func imageBlock(data string) string {
	return `{"type":"image","data":"` + data + `","mimeType":"image/png"}`
}

func audioBlock(data string) string {
	return `{"type":"audio","data":"` + data + `","mimeType":"audio/wav"}`
}

// audio returns an audio block if the client's revision has one, else a text that describes it.
func (q *query) audio() string {
	if !q.since(hasAudio) {
		return textBlock("[audio, audio/wav]")
	}
	return audioBlock(q.server.wav)
}

func linkBlock(uri, name, mime string) string {
	return `{"type":"resource_link",` + object("uri", quote(uri), "name", quote(name), "mimeType", quote(mime))[1:]
}

func embeddedBlock(uri, mime, text string) string {
	return `{"type":"resource","resource":` + object("uri", quote(uri), "mimeType", quote(mime), "text", quote(text)) + `}`
}

// contentOf returns the content member of a tool's result.
func contentOf(blocks ...string) string { return `"content":[` + strings.Join(blocks, ",") + `]` }

// picture returns a PNG of 8 by 8 pixels, red on white, as base64.
func picture() string {
	img := image.NewPaletted(image.Rect(0, 0, 8, 8), color.Palette{color.White, color.RGBA{R: 200, G: 0, B: 0, A: 255}})
	for i := range 8 {
		img.SetColorIndex(i, i, 1)
		img.SetColorIndex(7-i, i, 1)
	}
	var b bytes.Buffer
	_ = png.Encode(&b, img) // writing to a bytes.Buffer never fails
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

// sound returns a WAV of 10 ms of 400 Hz: 80 samples of 8 bits at 8 kHz, one channel, as base64.
func sound() string {
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
