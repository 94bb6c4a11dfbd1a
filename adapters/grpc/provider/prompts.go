package provider

import (
	"google.golang.org/protobuf/proto"

	"dragoman/adapters/grpc/providerpb"
	"dragoman/adapters/grpc/reply"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// maxCompletions is the most values of a completion (2026-07-28 completion).
const maxCompletions = 100

// prompt gets the prompt of a call, whose definition is known.
func (c *call) prompt(of *prompt) error {
	arguments := c.m.Of(c.m.Arguments)
	if len(arguments) == 0 || string(arguments) == "null" {
		arguments = []byte("{}")
	}
	if wrong, err := c.u.schemas.Check(of.arguments, arguments); err == nil && wrong != nil {
		return proxy.Errf(proxy.InvalidParams, "the arguments do not match those of the prompt: %s", wrong.String())
	}
	given := make(map[string]string)
	for key, v := range wire.Members(arguments, wire.Whole(arguments)) {
		given[string(key.Text(arguments))] = string(v.Text(arguments))
	}
	if of.template != "" {
		return c.fill(of, given)
	}
	request := &providerpb.GetPromptRequest{Name: string(c.m.Text(c.m.Name)), Arguments: given, Wants: c.wants(), Meta: c.meta()}
	if of.asks {
		return c.interact(&providerpb.InteractRequest{Message: &providerpb.InteractRequest_GetPrompt{GetPrompt: request}}, nil)
	}
	return c.step(promptMethod, request, func(in proto.Message) (*wire.Message, error) { return c.messages(in.(*providerpb.GetPromptResponse)) })
}

// fill answers with the template, its placeholders filled. One without an argument becomes empty.
func (c *call) fill(of *prompt, given map[string]string) error {
	text := placeholder.ReplaceAllStringFunc(of.template, func(place string) string { return given[place[1:len(place)-1]] })
	m, err := c.messages(&providerpb.GetPromptResponse{Description: of.description, Messages: []*providerpb.PromptMessage{
		{Role: providerpb.Role_ROLE_USER, Content: &providerpb.Content{Kind: &providerpb.Content_Text{Text: text}}}}})
	c.ready = m
	return err
}

// messages returns the response to prompts/get.
func (c *call) messages(of *providerpb.GetPromptResponse) (*wire.Message, error) {
	b := c.Begin(proto.Size(of))
	b.Some("description", of.GetDescription())
	b.Key("messages")
	b.Raw = append(b.Raw, '[')
	for _, m := range of.GetMessages() {
		one := wire.NewBuilder(nil)
		role := "user"
		if m.GetRole() == providerpb.Role_ROLE_ASSISTANT {
			role = "assistant"
		}
		one.Text("role", role)
		one.Key("content")
		var err error
		if one.Raw, err = appendContent(one.Raw, m.GetContent()); err != nil {
			return nil, err
		}
		b.Raw = wire.AppendItem(b.Raw, one.Done())
	}
	b.Raw = append(b.Raw, ']')
	meta, err := object(of.GetMeta(), "meta")
	if err != nil {
		return nil, err
	}
	return c.Complete(b, meta)
}

// complete asks for values of an argument.
func (c *call) complete() error {
	raw, params := c.m.Raw, c.m.Params
	ref, argument := wire.Get(raw, params, "ref"), wire.Get(raw, params, "argument")
	request := &providerpb.CompleteRequest{Argument: string(wire.Get(raw, argument, "name").Text(raw)), Value: string(wire.Get(raw, argument, "value").Text(raw)),
		Context: make(map[string]string)}
	for key, v := range wire.Members(raw, wire.Path(raw, params, "context", "arguments")) {
		request.Context[string(key.Text(raw))] = string(v.Text(raw))
	}
	switch {
	case wire.Get(raw, ref, "type").Is(raw, "ref/prompt"):
		request.Reference = &providerpb.CompleteRequest_Prompt{Prompt: string(wire.Get(raw, ref, "name").Text(raw))}
	case wire.Get(raw, ref, "type").Is(raw, "ref/resource"):
		request.Reference = &providerpb.CompleteRequest_Resource{Resource: string(wire.Get(raw, ref, "uri").Text(raw))}
	default:
		return proxy.Errf(proxy.InvalidParams, "params.ref.type must be ref/prompt or ref/resource")
	}
	return c.step(completeMethod, request, func(in proto.Message) (*wire.Message, error) {
		of := in.(*providerpb.CompleteResponse)
		values := of.GetValues()
		more := of.GetHasMore() || len(values) > maxCompletions
		b := c.Begin(0)
		b.Key("completion")
		one := wire.NewBuilder(b.Raw)
		one.Add("values", texts(values[:min(len(values), maxCompletions)]))
		if of.Total != nil {
			one.Add("total", reply.Number(float64(of.GetTotal())))
		}
		if more {
			one.Add("hasMore", []byte("true"))
		}
		b.Raw = one.Done()
		return c.Complete(b, nil)
	})
}
