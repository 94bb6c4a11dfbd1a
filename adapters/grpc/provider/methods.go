package provider

import (
	"google.golang.org/protobuf/proto"

	"dragoman/adapters/grpc/channel"
	"dragoman/adapters/grpc/providerpb"
	"dragoman/adapters/grpc/providerpb/cloudeventspb"
)

// unary returns a method with one answer.
func unary[T any, P interface {
	*T
	proto.Message
}](name string) *channel.Method {
	return &channel.Method{Name: name, Message: func() proto.Message { return P(new(T)) }}
}

// The methods of the contract.
var (
	listMethod     = unary[providerpb.ListCapabilitiesResponse](providerpb.Provider_ListCapabilities_FullMethodName)
	readMethod     = unary[providerpb.ReadResourceResponse](providerpb.Provider_ReadResource_FullMethodName)
	promptMethod   = unary[providerpb.GetPromptResponse](providerpb.Provider_GetPrompt_FullMethodName)
	completeMethod = unary[providerpb.CompleteResponse](providerpb.Provider_Complete_FullMethodName)

	callMethod = &channel.Method{Name: providerpb.Provider_CallTool_FullMethodName, ServerStreams: true,
		Message: func() proto.Message { return new(providerpb.CallToolResponse) },
		Last:    func(m proto.Message) bool { return m.(*providerpb.CallToolResponse).GetResult() != nil }}
	interactMethod = &channel.Method{Name: providerpb.Provider_Interact_FullMethodName, ServerStreams: true, ClientStreams: true,
		Message: func() proto.Message { return new(providerpb.InteractResponse) },
		Last: func(m proto.Message) bool {
			in := m.(*providerpb.InteractResponse)
			return in.GetTool() != nil || in.GetResource() != nil || in.GetPrompt() != nil
		}}
	watchMethod = &channel.Method{Name: providerpb.Provider_Watch_FullMethodName, ServerStreams: true,
		Message: func() proto.Message { return new(providerpb.WatchResponse) },
		Last:    func(proto.Message) bool { return false }}
	eventsMethod = &channel.Method{Name: providerpb.Provider_Events_FullMethodName, ServerStreams: true,
		Message: func() proto.Message { return new(cloudeventspb.CloudEvent) },
		Last:    func(proto.Message) bool { return false }}
)
