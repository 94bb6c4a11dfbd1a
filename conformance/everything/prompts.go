package everything

import (
	"strconv"
	"strings"

	"dragoman/conformance/everything/calls"
	"dragoman/conformance/everything/changes"
	"dragoman/conformance/everything/content"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// maxCompletions is the largest number of values in an answer (2026-07-28 completion, Completion Results).
const maxCompletions = 100

// prompt is a prompt. Exactly one of messages and script is set.
type prompt struct {
	name, description string
	arguments         []promptArgument
	messages          func(s *Server, args map[string]string) []string // content blocks, each a user message
	script            *calls.Script                                    // asks for its input; takes no arguments
}

// promptArgument is an argument of a prompt. All arguments are strings.
type promptArgument struct {
	name, description string
	required          bool
	values            []string // values for completion
}

func promptTable() []prompt {
	say := func(text string) func(*Server, map[string]string) []string {
		return func(*Server, map[string]string) []string { return []string{content.Text(text)} }
	}
	return []prompt{
		{"plain", "A prompt without arguments", nil, say("plain prompt"), nil},
		{"greet", "A greeting in a style", []promptArgument{
			{"name", "Who is greeted", true, nil},
			{"style", "How; plain if not given", false, []string{"formal", "friendly", "funny"}},
		}, greet, nil},
		{"test_simple_prompt", "A message, for the conformance suite", nil, say("This is a simple prompt for testing."), nil},
		{"test_prompt_with_arguments", "Two arguments in a message, for the conformance suite", []promptArgument{
			{"arg1", "First test argument", true, []string{"paris", "park", "party"}},
			{"arg2", "Second test argument", true, nil},
		}, func(_ *Server, args map[string]string) []string {
			return []string{content.Text("Prompt with arguments: arg1='" + args["arg1"] + "', arg2='" + args["arg2"] + "'")}
		}, nil},
		{"test_prompt_with_embedded_resource", "A resource and a message, for the conformance suite", []promptArgument{
			{"resourceUri", "URI of the resource to embed", true, nil},
		}, func(_ *Server, args map[string]string) []string {
			return []string{content.Embedded(args["resourceUri"], "text/plain", "Embedded resource content for testing."),
				content.Text("Please process the embedded resource above.")}
		}, nil},
		{"test_prompt_with_image", "An image and a message, for the conformance suite", nil, func(s *Server, _ map[string]string) []string {
			return []string{content.Image(s.png), content.Text("Please analyze the image above.")}
		}, nil},
		{"test_input_required_result_prompt", "Asks the user for its context, for the conformance suite", nil, nil, askContext()},
		{sometimes, "There only sometimes", nil, say("Here I am."), nil},
	}
}

func greet(_ *Server, args map[string]string) []string {
	style := args["style"]
	if style == "" {
		style = "plain"
	}
	return []string{content.Text("Greet " + args["name"] + " in a " + style + " style")}
}

// addPrompts sets the prompts and their list.
func (s *Server) addPrompts(pageSize int) {
	table := promptTable()
	s.prompts = make(map[string]*prompt, len(table))
	items := make([]string, 0, len(table))
	for i := range table {
		p := &table[i]
		s.prompts[p.name] = p
		var args []string
		for _, a := range p.arguments {
			need := "false"
			if a.required {
				need = "true"
			}
			args = append(args, content.Object("name", content.Quote(a.name), "description", content.Quote(a.description), "required", need))
		}
		items = append(items, content.Object("name", content.Quote(p.name), "description", content.Quote(p.description), "arguments", "["+strings.Join(args, ",")+"]"))
	}
	s.setLists(changes.Prompts, items, pageSize, shownTTL)
}

// prompt answers prompts/get. Unlike a tool's, invalid arguments are an error of the request, -32602 (2026-07-28 prompts,
// Error Handling).
func (s *Server) prompt(ex *proxy.Exchange, m wire.Message) (proxy.Replies, error) {
	p, ok := s.prompts[string(m.Text(m.Name))]
	if !ok || p.name == sometimes && !s.isShown(changes.Prompts) {
		return refuse(&m, proxy.Errf(proxy.InvalidParams, "unknown prompt: %s", m.Of(m.Name)))
	}
	q, refusal := s.runner.Query(ex, m)
	if refusal != nil {
		return refuse(&m, refusal)
	}
	if p.script != nil {
		return s.runner.Interview(ex, q, p.script)
	}
	args := make(map[string]string, len(p.arguments))
	for _, a := range p.arguments {
		if a.required {
			args[a.name] = q.Args.Text(a.name)
		} else {
			args[a.name], _ = q.Args.MaybeText(a.name)
		}
	}
	if q.Args.Wrong != "" {
		return refuse(&m, proxy.NewError(proxy.InvalidParams, q.Args.Wrong))
	}
	return proxy.Reply(q.Message(prompted(p.description, p.messages(s, args)...))), nil
}

// prompted returns a prompt result with the content blocks.
func prompted(description string, blocks ...string) calls.Outcome {
	messages := make([]string, len(blocks))
	for i, b := range blocks {
		messages[i] = `{"role":"user","content":` + b + `}`
	}
	return calls.Gives(`"description":` + content.Quote(description) + `,"messages":[` + strings.Join(messages, ",") + `]`)
}

// complete answers completion/complete. An argument without values gets an empty list; an unknown prompt or template is
// -32602.
func (s *Server) complete(era proxy.Era, m *wire.Message) ([]byte, *proxy.Error) {
	get := func(object, member string) (string, bool) {
		v := wire.Path(m.Raw, m.Params, object, member)
		return string(v.Text(m.Raw)), v.IsString(m.Raw)
	}
	argument, ok := get("argument", "name")
	begin, ok2 := get("argument", "value")
	if !ok || !ok2 {
		return nil, proxy.Errf(proxy.InvalidParams, "params.argument must have the strings name and value")
	}
	offers, refusal := s.offers(get, argument)
	if refusal != nil {
		return nil, refusal
	}
	var values []string
	for _, v := range offers {
		if strings.HasPrefix(v, begin) {
			values = append(values, content.Quote(v))
		}
	}
	more := len(values) > maxCompletions
	return s.completion(era, values[:min(len(values), maxCompletions)], len(values), more), nil
}

// offers returns all values for an argument of the prompt or template that params.ref names.
func (s *Server) offers(get func(object, member string) (string, bool), argument string) ([]string, *proxy.Error) {
	switch kind, _ := get("ref", "type"); kind {
	case "ref/prompt":
		name, _ := get("ref", "name")
		p, ok := s.prompts[name]
		if !ok {
			return nil, proxy.Errf(proxy.InvalidParams, "unknown prompt: %q", name)
		}
		for _, a := range p.arguments {
			if a.name == argument {
				return a.values, nil
			}
		}
		return nil, nil
	case "ref/resource":
		uri, _ := get("ref", "uri")
		for i := range s.templates {
			if t := &s.templates[i]; t.pattern() == uri {
				if argument == "id" {
					return t.ids, nil
				}
				return nil, nil
			}
		}
		return nil, proxy.Errf(proxy.InvalidParams, "unknown resource template: %q", uri)
	default:
		return nil, proxy.Errf(proxy.InvalidParams, "params.ref.type must be ref/prompt or ref/resource")
	}
}

func (s *Server) completion(era proxy.Era, values []string, total int, more bool) []byte {
	return s.result(era, content.Complete, `"completion":{"values":[`+strings.Join(values, ",")+`],"total":`+strconv.Itoa(total)+
		`,"hasMore":`+strconv.FormatBool(more)+`}`)
}
