package provider

import (
	"encoding/base64"
	"strconv"
	"time"

	"dragoman/adapters/events"
	"dragoman/adapters/grpc/providerpb/cloudeventspb"
)

// eventOf returns an event of a provider. What is wrong with it, its validation finds: a time that cannot be read is none, and data of protobuf, which
// is no JSON, is empty text.
func eventOf(e *cloudeventspb.CloudEvent) *events.Event {
	out := &events.Event{ID: e.GetId(), Source: e.GetSource(), SpecVersion: e.GetSpecVersion(), Type: e.GetType()}
	for name, of := range e.GetAttributes() {
		switch text := attribute(of); name {
		case "time":
			out.Time, _ = time.Parse(time.RFC3339Nano, text) // zero if it is no time, which is invalid
		case "subject":
			out.Subject = text
		case "datacontenttype":
			out.DataContentType = text
		case "dataschema":
			out.DataSchema = text
		default:
			if out.Extensions == nil {
				out.Extensions = make(map[string]string)
			}
			out.Extensions[name] = text
		}
	}
	switch data := e.GetData().(type) {
	case *cloudeventspb.CloudEvent_TextData:
		out.Data = []byte(data.TextData)
	case *cloudeventspb.CloudEvent_BinaryData:
		out.Data = data.BinaryData
	case *cloudeventspb.CloudEvent_ProtoData:
		out.Data = []byte{}
	}
	return out
}

// attribute returns the canonical text of an attribute's value (CloudEvents 1.0, Type System).
func attribute(of *cloudeventspb.CloudEvent_CloudEventAttributeValue) string {
	switch v := of.GetAttr().(type) {
	case *cloudeventspb.CloudEvent_CloudEventAttributeValue_CeBoolean:
		return strconv.FormatBool(v.CeBoolean)
	case *cloudeventspb.CloudEvent_CloudEventAttributeValue_CeInteger:
		return strconv.Itoa(int(v.CeInteger))
	case *cloudeventspb.CloudEvent_CloudEventAttributeValue_CeString:
		return v.CeString
	case *cloudeventspb.CloudEvent_CloudEventAttributeValue_CeBytes:
		return base64.StdEncoding.EncodeToString(v.CeBytes)
	case *cloudeventspb.CloudEvent_CloudEventAttributeValue_CeUri:
		return v.CeUri
	case *cloudeventspb.CloudEvent_CloudEventAttributeValue_CeUriRef:
		return v.CeUriRef
	case *cloudeventspb.CloudEvent_CloudEventAttributeValue_CeTimestamp:
		return v.CeTimestamp.AsTime().Format(time.RFC3339Nano)
	}
	return ""
}
