package provider

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"dragoman/adapters/grpc/providerpb/cloudeventspb"
)

type attr = cloudeventspb.CloudEvent_CloudEventAttributeValue

// An event in the protobuf format is the one in the JSON format.
func TestEventOf(t *testing.T) {
	at := time.Date(2025, 10, 18, 12, 0, 0, 5, time.UTC)
	e := &cloudeventspb.CloudEvent{Id: "A234", Source: "urn:provider:hello-go", SpecVersion: "1.0", Type: "provider.metric.reported", Attributes: map[string]*attr{
		"time":            {Attr: &cloudeventspb.CloudEvent_CloudEventAttributeValue_CeTimestamp{CeTimestamp: timestamppb.New(at)}},
		"subject":         {Attr: &cloudeventspb.CloudEvent_CloudEventAttributeValue_CeString{CeString: "s"}},
		"datacontenttype": {Attr: &cloudeventspb.CloudEvent_CloudEventAttributeValue_CeString{CeString: "application/json"}},
		"dataschema":      {Attr: &cloudeventspb.CloudEvent_CloudEventAttributeValue_CeUri{CeUri: "urn:schema"}},
		"on":              {Attr: &cloudeventspb.CloudEvent_CloudEventAttributeValue_CeBoolean{CeBoolean: true}},
		"count":           {Attr: &cloudeventspb.CloudEvent_CloudEventAttributeValue_CeInteger{CeInteger: -7}},
		"raw":             {Attr: &cloudeventspb.CloudEvent_CloudEventAttributeValue_CeBytes{CeBytes: []byte{0}}},
		"ref":             {Attr: &cloudeventspb.CloudEvent_CloudEventAttributeValue_CeUriRef{CeUriRef: "/r"}},
	}, Data: &cloudeventspb.CloudEvent_TextData{TextData: `{"metric":"tool_invocations","value":42}`}}
	got := eventOf(e)
	if err := got.Validate(); err != nil {
		t.Error(err)
	}
	const want = `{"specversion":"1.0","id":"A234","source":"urn:provider:hello-go","type":"provider.metric.reported","subject":"s","time":"2025-10-18T12:00:00.000000005Z","count":"-7","on":"true","raw":"AA==","ref":"/r",` +
		`"dataschema":"urn:schema","datacontenttype":"application/json","data":{"metric":"tool_invocations","value":42}}`
	if text := string(got.AppendJSON(nil)); text != want {
		t.Errorf("%s, want\n%s", text, want)
	}
	e.Data = &cloudeventspb.CloudEvent_BinaryData{BinaryData: []byte("[1]")}
	if text := string(eventOf(e).Data); text != "[1]" {
		t.Error(text)
	}
	e.Data = &cloudeventspb.CloudEvent_ProtoData{ProtoData: new(anypb.Any)}
	if err := eventOf(e).Validate(); err == nil {
		t.Error("data of protobuf is taken")
	}
	e.Data = nil
	e.Attributes["time"] = &attr{Attr: &cloudeventspb.CloudEvent_CloudEventAttributeValue_CeString{CeString: "yesterday"}}
	if err := eventOf(e).Validate(); err == nil {
		t.Error("a time that is none is taken")
	}
	e.Attributes["time"] = new(attr)
	if got := eventOf(e); !got.Time.IsZero() || got.Data != nil {
		t.Errorf("%+v", got)
	}
}
