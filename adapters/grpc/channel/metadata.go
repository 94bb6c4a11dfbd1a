package channel

import (
	"context"
	"strings"
	"time"

	"google.golang.org/grpc/metadata"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Names of metadata (seed 002, CorrelationContext).
const (
	correlationKey = "x-correlation-id"
	timeKey        = "x-correlation-time"
	clientKey      = "x-client-info"
)

// maxClientInfo bounds the name and version of a client in metadata, in bytes.
const maxClientInfo = 256

// metadata returns the metadata of a call for an exchange, and the authorization among it.
func (c *Channel) metadata(ex *proxy.Exchange) (metadata.MD, string, error) {
	md := make(metadata.MD, 8+len(c.opt.Headers))
	for i := range c.opt.Headers {
		key := strings.ToLower(c.opt.Headers[i].Name)
		md[key] = append(md[key], c.opt.Headers[i].Value)
	}
	forwarded := proxy.ForwardedFrom(ex)
	for i := range c.opt.Forward {
		if value, ok := forwarded.Get(c.opt.Forward[i].From); ok {
			md[strings.ToLower(c.opt.Forward[i].To)] = []string{value}
		}
	}
	md[correlationKey] = []string{ex.ID()}
	md[timeKey] = []string{ex.Clock.Now().UTC().Format(time.RFC3339Nano)}
	if info := clientInfo(ex.Client.Info); info != "" {
		md[clientKey] = []string{info}
	}
	if t := proxy.TraceIn(ex); t != nil {
		for _, x := range [...]proxy.Header{{Name: "traceparent", Value: t.Parent}, {Name: "tracestate", Value: t.State}, {Name: "baggage", Value: t.Baggage}} {
			if delete(md, x.Name); x.Value != "" {
				md[x.Name] = []string{x.Value}
			}
		}
	}
	if c.opt.Credentials == nil {
		return md, "", nil
	}
	authorization, err := c.opt.Credentials.Authorization(ex)
	if err != nil {
		return nil, "", err
	}
	md["authorization"] = []string{authorization}
	return md, authorization, nil
}

// clientInfo returns name and version of a client, as "name/version", of the characters that metadata may have (printable ASCII); others
// become a question mark.
func clientInfo(info []byte) string {
	all, err := wire.ScanValue(info)
	if err != nil {
		return ""
	}
	text := string(wire.Get(info, all, "name").Text(info))
	if version := wire.Get(info, all, "version").Text(info); len(version) > 0 && text != "" {
		text += "/" + string(version)
	}
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text)
	return strings.TrimSpace(text[:min(len(text), maxClientInfo)])
}

// outgoing returns the context of a call: without what the exchange is a context for, since the call may end after it.
func outgoing(md metadata.MD, deadline time.Time) (context.Context, context.CancelFunc) {
	ctx := metadata.NewOutgoingContext(context.Background(), md)
	if deadline.IsZero() {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, deadline)
}
