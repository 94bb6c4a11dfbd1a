package hello

import (
	"crypto/rand"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"dragoman/adapters/grpc/providerpb"
	"dragoman/adapters/grpc/providerpb/cloudeventspb"
)

// emit adds an event with data, a JSON object.
func (p *Provider) emit(data string) {
	at := &cloudeventspb.CloudEvent_CloudEventAttributeValue_CeTimestamp{CeTimestamp: timestamppb.Now()}
	kind := &cloudeventspb.CloudEvent_CloudEventAttributeValue_CeString{CeString: "application/json"}
	event := &cloudeventspb.CloudEvent{Id: rand.Text(), Source: "urn:provider:" + p.name, SpecVersion: "1.0", Type: "provider.metric.reported",
		Attributes: map[string]*cloudeventspb.CloudEvent_CloudEventAttributeValue{"time": {Attr: at}, "datacontenttype": {Attr: kind}},
		Data:       &cloudeventspb.CloudEvent_TextData{TextData: data}}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.events = append(p.events, event); len(p.events) > keptEvents {
		p.events, p.next = p.events[1:], p.next+1
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

// since returns the events from a number on, the number of the next one, and a channel that is closed when there are more.
func (p *Provider) since(n int) ([]*cloudeventspb.CloudEvent, int, chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.events[max(0, n-p.next):], p.next + len(p.events), p.changed
}

// Events streams the events from now on.
func (p *Provider) Events(_ *providerpb.EventsRequest, stream grpc.ServerStreamingServer[cloudeventspb.CloudEvent]) error {
	_, n, _ := p.since(0)
	if err := stream.SendHeader(nil); err != nil { // tells the caller that it misses no event from now on
		return err
	}
	for {
		events, next, changed := p.since(n)
		for _, event := range events {
			if err := stream.Send(event); err != nil {
				return err
			}
		}
		n = next
		select {
		case <-changed:
		case <-p.done:
			return status.Error(codes.Unavailable, "the provider is stopping")
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		}
	}
}
