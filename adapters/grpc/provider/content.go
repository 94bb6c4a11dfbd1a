package provider

import (
	"bytes"
	"encoding/base64"
	"strconv"

	"dragoman/adapters/grpc/providerpb"
	"dragoman/adapters/grpc/reply"
	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// levelOf returns a log level of MCP; unspecified if there is no such level.
func levelOf(name string) providerpb.LogLevel {
	for i, known := range rules.LogLevels {
		if known == name {
			return providerpb.LogLevel(i + 1)
		}
	}
	return providerpb.LogLevel_LOG_LEVEL_UNSPECIFIED
}

// levelName returns the name of a log level; "info" if it is unknown.
func levelName(level providerpb.LogLevel) string {
	if level < 1 || int(level) > len(rules.LogLevels) {
		return "info"
	}
	return rules.LogLevels[level-1]
}

// appendContent appends a block of content.
func appendContent(dst []byte, of *providerpb.Content) ([]byte, error) {
	b := wire.NewBuilder(dst)
	switch kind := of.GetKind().(type) {
	case *providerpb.Content_Text:
		b.Add("type", []byte(`"text"`))
		b.Text("text", kind.Text)
	case *providerpb.Content_Image:
		addBlob(b, "image", kind.Image)
	case *providerpb.Content_Audio:
		addBlob(b, "audio", kind.Audio)
	case *providerpb.Content_Link:
		b.Add("type", []byte(`"resource_link"`))
		if err := addResource(b, kind.Link); err != nil {
			return nil, err
		}
		if of.GetAnnotations() == nil { // those of the resource stand
			return withMeta(b, of.GetMeta())
		}
	case *providerpb.Content_Resource:
		b.Add("type", []byte(`"resource"`))
		b.Key("resource")
		var err error
		if b.Raw, err = appendContents(b.Raw, kind.Resource); err != nil {
			return nil, err
		}
	case *providerpb.Content_Json:
		raw, err := object(kind.Json, "content.json")
		if err != nil {
			return nil, err
		}
		if !wire.Get(raw, wire.Whole(raw), "type").IsString(raw) {
			return nil, proxy.Errf(proxy.BadAnswer, "the provider's content.json has no type")
		}
		return append(dst, raw...), nil
	default:
		return nil, proxy.Errf(proxy.BadAnswer, "the provider has sent a content block without a kind")
	}
	addAnnotations(b, of.GetAnnotations())
	return withMeta(b, of.GetMeta())
}

func withMeta(b *wire.Builder, text string) ([]byte, error) {
	meta, err := object(text, "meta")
	if err != nil {
		return nil, err
	}
	b.Add("_meta", meta)
	return b.Done(), nil
}

func addBlob(b *wire.Builder, kind string, of *providerpb.Blob) {
	b.Text("type", kind)
	addBase64(b, "data", of.GetData())
	b.Text("mimeType", of.GetMimeType())
}

// addBase64 adds a member whose value is base64.
func addBase64(b *wire.Builder, key string, data []byte) {
	b.Key(key)
	b.Raw = append(base64.StdEncoding.AppendEncode(append(b.Raw, '"'), data), '"')
}

func addAnnotations(b *wire.Builder, of *providerpb.Annotations) {
	if of == nil {
		return
	}
	b.Key("annotations")
	a := wire.NewBuilder(b.Raw)
	if all := of.GetAudience(); len(all) > 0 {
		a.Add("audience", texts(all))
	}
	if of.Priority != nil {
		a.Add("priority", reply.Number(of.GetPriority()))
	}
	a.Some("lastModified", of.GetLastModified())
	b.Raw = a.Done()
}

// texts returns a JSON array of strings.
func texts(all []string) []byte {
	out := []byte{'['}
	for _, text := range all {
		out = wire.AppendItem(out, wire.AppendText(nil, text))
	}
	return append(out, ']')
}

// appendContents appends the contents of a resource.
func appendContents(dst []byte, of *providerpb.ResourceContents) ([]byte, error) {
	b := wire.NewBuilder(dst)
	b.Text("uri", of.GetUri())
	b.Some("mimeType", of.GetMimeType())
	if blob, ok := of.GetContents().(*providerpb.ResourceContents_Blob); ok {
		addBase64(b, "blob", blob.Blob)
	} else {
		b.Text("text", of.GetText())
	}
	return withMeta(b, of.GetMeta())
}

// addResource adds the members of a resource. Its annotations are among them.
func addResource(b *wire.Builder, of *providerpb.Resource) error {
	b.Text("uri", of.GetUri())
	b.Text("name", of.GetName())
	b.Some("title", of.GetTitle())
	b.Some("description", of.GetDescription())
	b.Some("mimeType", of.GetMimeType())
	if of.Size != nil {
		b.Add("size", strconv.AppendInt(nil, of.GetSize(), 10))
	}
	addIcons(b, of.GetIcons())
	addAnnotations(b, of.GetAnnotations())
	return nil
}

func addIcons(b *wire.Builder, all []*providerpb.Icon) {
	if len(all) == 0 {
		return
	}
	b.Key("icons")
	b.Raw = append(b.Raw, '[')
	for i, icon := range all {
		if i > 0 {
			b.Raw = append(b.Raw, ',')
		}
		one := wire.NewBuilder(b.Raw)
		one.Text("src", icon.GetSrc())
		one.Some("mimeType", icon.GetMimeType())
		if len(icon.GetSizes()) > 0 {
			one.Add("sizes", texts(icon.GetSizes()))
		}
		one.Some("theme", icon.GetTheme())
		b.Raw = one.Done()
	}
	b.Raw = append(b.Raw, ']')
}

// object returns text as the JSON object that it must be; nil if it is empty.
func object(text, where string) ([]byte, error) {
	if text == "" {
		return nil, nil
	}
	raw, err := value(text, where)
	if err == nil && raw[0] != '{' {
		err = proxy.Errf(proxy.BadAnswer, "the provider's %s is no JSON object", where)
	}
	return raw, err
}

// value returns text as the JSON value that it must be.
func value(text, where string) ([]byte, error) {
	raw := []byte(text)
	at, err := wire.ScanValue(raw)
	if err != nil {
		return nil, proxy.Errf(proxy.BadAnswer, "the provider's %s is no JSON: %w", where, err)
	}
	return bytes.TrimSpace(at.Of(raw)), nil
}
