package admin

import (
	"bytes"
	"fmt"
	"io"
	"time"

	"github.com/goccy/go-json"
	"github.com/valyala/fasthttp"

	"dragoman/proxy"
)

// Levels reads and changes the log level.
type Levels interface {
	// Level returns it.
	Level() LevelState
	// SetLevel changes it for span or, if that is 0, until the next change. The error names the known levels.
	SetLevel(level string, span time.Duration) error
}

// LevelState is the current log level.
type LevelState struct {
	Level string `json:"level"`
	// Configured is the level that it returns to.
	Configured string `json:"configured"`
	// Until is when it returns; nil: never.
	Until *time.Time `json:"until,omitempty"`
}

const (
	maxLevelBody = 4 << 10 // bytes of a PUT's body
	leastSpan    = time.Second
	mostSpan     = 24 * time.Hour
)

func (opt *Options) level(ctx *fasthttp.RequestCtx) { reply(ctx, opt.Levels.Level()) }

// setLevel accepts {"level":"debug"}, and with "for" a duration after which the level returns.
func (opt *Options) setLevel(ctx *fasthttp.RequestCtx) {
	level, span, err := parseLevel(ctx.PostBody())
	if err == nil {
		err = opt.Levels.SetLevel(level, span)
	}
	if err != nil {
		refuse(ctx, proxy.Errf(proxy.InvalidRequest, "the level of the log stays: %w", err))
		return
	}
	opt.level(ctx)
}

func parseLevel(body []byte) (level string, span time.Duration, err error) {
	var o struct {
		Level string `json:"level"`
		For   string `json:"for"`
	}
	if len(body) > maxLevelBody {
		return "", 0, fmt.Errorf("the body is longer than %d bytes", maxLevelBody)
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&o); err != nil {
		return "", 0, fmt.Errorf(`send {"level":"debug"}, with "for":"10m" to have it go back: %w`, err)
	}
	if _, err := d.Token(); err != io.EOF { //nolint:errorlint // it is not wrapped
		return "", 0, fmt.Errorf("there is something behind the object")
	}
	if o.For == "" {
		return o.Level, 0, nil
	}
	span, err = time.ParseDuration(o.For)
	if err != nil || span < leastSpan || span > mostSpan {
		return "", 0, fmt.Errorf("for: %q is no duration from %s to %s, such as \"10m\"", o.For, leastSpan, mostSpan)
	}
	return o.Level, span, nil
}
