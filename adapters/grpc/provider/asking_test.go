package provider

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"dragoman/adapters/grpc/providerpb"
	"dragoman/internal/testkit"
	"dragoman/proxy"
)

type conversation = grpc.BidiStreamingServer[providerpb.InteractRequest, providerpb.InteractResponse]

func asks(id, method, params string) *providerpb.InteractResponse {
	return &providerpb.InteractResponse{Message: &providerpb.InteractResponse_Question{Question: &providerpb.Question{Id: id, Method: method, Params: params}}}
}

func finished(text string) *providerpb.InteractResponse {
	return &providerpb.InteractResponse{Message: &providerpb.InteractResponse_Tool{Tool: &providerpb.CallToolResult{Content: []*providerpb.Content{textOf(text)}}}}
}

// sends sends messages until one fails.
func sends(to conversation, all ...*providerpb.InteractResponse) error {
	for _, m := range all {
		if err := to.Send(m); err != nil {
			return err
		}
	}
	return nil
}

// heardOf returns an answer in short.
func heardOf(m *providerpb.InteractRequest) string {
	a := m.GetAnswer()
	if a.GetFailure() != nil {
		return a.GetId() + "!" + a.GetFailure().GetMessage()
	}
	return a.GetId() + "=" + a.GetResult()
}

// askingRig is a rig whose tool echo.v1 converses.
func askingRig(t *testing.T, bounds Asking, talk func(to conversation) error) *rig {
	tool := echo()
	tool.Asks = true
	return newRig(t, &scripted{list: page(tool), interact: func(to conversation) error {
		if _, err := to.Recv(); err != nil {
			return err
		}
		return talk(to)
	}}, bounds)
}

var stateOf = regexp.MustCompile(`"requestState":"([^"]*)"`)

// retry is the members of a retry of the call, with answers.
func retry(t *testing.T, response, answers string) string {
	t.Helper()
	state := stateOf.FindStringSubmatch(response)
	if state == nil {
		t.Fatalf("no requestState: %s", response)
	}
	return `"name":"echo.v1","requestState":"` + state[1] + `","inputResponses":{` + answers + `},`
}

const form = `{"mode":"form","message":"?","requestedSchema":{"type":"object"}}`

// A provider's questions end the request, and the answers of the retry continue the same call: also several at a time, several rounds, and
// those that were left out.
func TestQuestions(t *testing.T) {
	var heard []string
	r := askingRig(t, asking, func(to conversation) error {
		part := &providerpb.InteractResponse{Message: &providerpb.InteractResponse_Content{Content: textOf("first")}}
		if err := sends(to, part, asks("a", "elicitation/create", form), asks("b", "roots/list", "")); err != nil {
			return err
		}
		for i := range 3 {
			m, err := to.Recv()
			if err != nil {
				return err
			}
			heard = append(heard, heardOf(m))
			if i == 1 {
				if err := to.Send(asks("c", "sampling/createMessage", `{"messages":[],"maxTokens":1}`)); err != nil {
					return err
				}
			}
		}
		return to.Send(finished("end"))
	})
	one := r.ask("tools/call", `"name":"echo.v1",`)
	if want := `"inputRequests":{"a":{"method":"elicitation/create","params":` + form + `},"b":{"method":"roots/list","params":{}}},"requestState":"`; !strings.Contains(one, `"resultType":"input_required",`+want) {
		t.Errorf("%s\nwant %s", one, want)
	}
	two := r.ask("tools/call", retry(t, one, `"a":{"action":"accept","content":{}},"unknown":{}`))
	if !strings.Contains(two, `"inputRequests":{"b":`) {
		t.Error(two)
	}
	three := r.ask("tools/call", retry(t, two, `"b":{"roots":[]}`))
	if !strings.Contains(three, `"inputRequests":{"c":{"method":"sampling/createMessage"`) {
		t.Error(three)
	}
	four := r.ask("tools/call", retry(t, three, `"c":{"role":"assistant"}`))
	if result(four) != `{"content":[{"type":"text","text":"first"},{"type":"text","text":"end"}],`+info {
		t.Error(four)
	}
	if got := strings.Join(heard, " "); got != `a={"action":"accept","content":{}} b={"roots":[]} c={"role":"assistant"}` {
		t.Error(got)
	}
}

// A question that cannot be put to the client is answered with a status, and the call goes on.
func TestQuestionsRefused(t *testing.T) {
	for _, c := range []struct{ method, params, caps, want string }{
		{"elicitation/create", form, "{}", "the server needs to ask the client (elicitation/create), which has not declared that it can be asked"},
		{"elicitation/create", `{"mode":"url","url":"u"}`, `{"elicitation":{}}`, "the server needs to ask the client (elicitation/create), which has not declared that it can be asked"},
		{"no/such", "", `{"elicitation":{}}`, `the server asks the client for "no/such", which does not exist`},
	} {
		heard := make(chan string, 1)
		r := askingRig(t, asking, func(to conversation) error {
			if err := to.Send(asks("q", c.method, c.params)); err != nil {
				return err
			}
			m, err := to.Recv()
			if err != nil {
				return err
			}
			heard <- heardOf(m)
			return to.Send(finished("end"))
		})
		got := r.all(r.exchange("tools/call", `"name":"echo.v1",`, strings.Replace(meta, `{"elicitation":{},"sampling":{},"roots":{}}`, c.caps, 1)))
		if said := <-heard; said != "q!"+c.want || !strings.Contains(got[0], `"text":"end"`) {
			t.Errorf("%+v: %s %s", c, said, got)
		}
	}
	r := askingRig(t, asking, func(to conversation) error { return to.Send(asks("q", "elicitation/create", `[]`)) })
	if got := r.ask("tools/call", `"name":"echo.v1",`); got != "[upstream_bad_answer] the provider's question.params is no JSON object" {
		t.Error(got)
	}
}

// A state serves its caller, its request and one retry only; a wrong retry leaves the call as it is.
func TestStates(t *testing.T) {
	r := askingRig(t, asking, func(to conversation) error {
		if err := to.Send(asks("q", "elicitation/create", form)); err != nil {
			return err
		}
		if _, err := to.Recv(); err != nil {
			return err
		}
		return to.Send(finished("end"))
	})
	one := r.ask("tools/call", `"name":"echo.v1",`)
	good := retry(t, one, `"q":{"action":"decline"}`)
	const bad = "[request_state_invalid] requestState is unknown, changed, used or expired; send the request again without it"
	other := r.exchange("tools/call", good, meta)
	other.Caller.Principal = "somebody else"
	for what, got := range map[string]string{
		"another caller":  r.all(other)[0],
		"another tool":    r.ask("tools/call", strings.Replace(good, "echo.v1", "other.v1", 1)),
		"another method":  r.ask("prompts/get", good),
		"an unknown one":  r.ask("tools/call", strings.Replace(good, `"requestState":"`, `"requestState":"x`, 1)),
		"no text":         r.ask("tools/call", stateOf.ReplaceAllString(good, `"requestState":7`)),
		"a wrong answer":  r.ask("tools/call", retry(t, one, `"q":7`)),
		"answers no list": r.ask("tools/call", strings.Replace(good, `{"q":{"action":"decline"}}`, "[]", 1)),
	} {
		want := bad
		switch what {
		case "a wrong answer":
			want = `[invalid_params] params.inputResponses["q"] must be an object`
		case "answers no list":
			want = "[invalid_params] params.inputResponses must be an object"
		}
		if got != want {
			t.Errorf("%s: %s", what, got)
		}
	}
	if got := r.ask("tools/call", good); !strings.Contains(got, `"text":"end"`) {
		t.Error(got)
	}
	if got := r.ask("tools/call", good); got != bad {
		t.Error(got)
	}
}

// What waits for clients is bounded: in number, for each principal, in rounds and in time. What is given up ends at the provider.
func TestWaitingIsBounded(t *testing.T) {
	bounds := Asking{TTL: time.Minute, Settle: time.Millisecond, Most: 3, MostOfPrincipal: 2, Rounds: 1}
	ended, heard := make(chan error, 10), make(chan string, 10)
	talk := func(to conversation) error {
		if err := to.Send(asks("q", "elicitation/create", form)); err != nil {
			return err
		}
		for {
			m, err := to.Recv()
			if err != nil {
				ended <- to.Context().Err()
				return err
			}
			heard <- heardOf(m)
			if err := to.Send(asks("q2", "elicitation/create", form)); err != nil || m.GetAnswer().GetFailure() != nil {
				return to.Send(finished("end"))
			}
		}
	}
	r := askingRig(t, bounds, talk)
	call := func(who string) string {
		ex := r.exchange("tools/call", `"name":"echo.v1",`, meta)
		ex.Caller.Principal = who
		all := r.all(ex)
		return all[0]
	}
	a1, a2 := call("a"), call("a")
	if got := call("a"); got != "[too_many_questions] 2 calls wait for this client's answers, as many as questions.max_parked_per_principal allows" {
		t.Error(got)
	}
	_ = call("b")
	if got := call("c"); got != "[too_many_questions] 3 calls wait for their clients' answers, as many as questions.max_parked allows" {
		t.Error(got)
	}
	for range 2 {
		if testkit.Receive(t, "the end of a refused call", ended) == nil {
			t.Error("a refused call goes on")
		}
	}
	again := r.exchange("tools/call", retry(t, a1, `"q":{}`), meta)
	again.Caller.Principal = "a"
	if got := r.all(again); !strings.Contains(got[0], `"text":"end"`) {
		t.Errorf("%s", got)
	}
	if one, two := <-heard, <-heard; one != "q={}" || !strings.HasPrefix(two, "q2!the call has asked more than questions.rounds") || !strings.Contains(r.noted(), "a question of the provider is refused") {
		t.Errorf("%s, %s; %s", one, two, r.noted())
	}
	leaves := r.exchange("tools/call", retry(t, a2, ""), meta) // asks again
	leaves.Caller.Principal = "a"
	replies, err := r.u.Call(leaves)
	if err != nil {
		t.Fatal(err)
	}
	leaves.Cancel(proxy.ErrCancelled)
	_, err = replies.Next(time.Time{})
	if _ = replies.Close(); err != proxy.ErrCancelled || testkit.Receive(t, "the end of a cancelled call", ended) == nil {
		t.Error(err)
	}
	r.u.End()
	if testkit.Receive(t, "the end of the last call", ended) == nil {
		t.Error("a call goes on after the end")
	}
	if got := call("b"); got != "[shutting_down] the provider is being removed" {
		t.Error(got)
	}

	bounds.TTL = time.Millisecond
	r = askingRig(t, bounds, talk)
	for testkit.Receive(t, "the end of the refused call", ended) == nil {
	}
	one := r.ask("tools/call", `"name":"echo.v1",`)
	if testkit.Receive(t, "the end of a call whose client stays away", ended) == nil {
		t.Error("it goes on")
	}
	if got := r.ask("tools/call", retry(t, one, `"q":{}`)); !strings.HasPrefix(got, "[request_state_invalid]") {
		t.Error(got)
	}
}

// A question that the provider withdraws is asked no more; progress and logs travel in a conversation too.
func TestWithdrawn(t *testing.T) {
	r := askingRig(t, asking, func(to conversation) error {
		gone := &providerpb.InteractResponse{Message: &providerpb.InteractResponse_Withdrawn{Withdrawn: "a"}}
		progress := &providerpb.InteractResponse{Message: &providerpb.InteractResponse_Progress{Progress: &providerpb.Progress{Progress: 1}}}
		log := &providerpb.InteractResponse{Message: &providerpb.InteractResponse_Log{Log: &providerpb.Log{Level: 5, Data: "1"}}}
		return sends(to, asks("a", "elicitation/create", form), gone, progress, log, finished("end"))
	})
	full := strings.Replace(meta, `"_meta":{`, `"_meta":{"progressToken":1,"io.modelcontextprotocol/logLevel":"debug",`, 1)
	if got := r.all(r.exchange("tools/call", `"name":"echo.v1",`, full)); len(got) != 3 || !strings.Contains(got[0], `"progress":1`) || !strings.Contains(got[1], `"level":"error"`) || !strings.Contains(got[2], `"text":"end"`) {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
}

// Resources and prompts may ask, too; an answer of another kind is the provider's fault.
func TestOtherMethodsAsk(t *testing.T) {
	of := make(chan *providerpb.InteractRequest, 1)
	answer := &providerpb.InteractResponse{}
	r := newRig(t, &scripted{interact: func(to conversation) error {
		m, err := to.Recv()
		if err != nil {
			return err
		}
		of <- m
		if err := to.Send(asks("q", "roots/list", "")); err != nil {
			return err
		}
		if _, err := to.Recv(); err != nil {
			return err
		}
		return to.Send(answer)
	}, list: &providerpb.ListCapabilitiesResponse{
		Resources:         []*providerpb.Resource{{Uri: "a:b", Name: "n", Description: "d", Asks: true}},
		ResourceTemplates: []*providerpb.ResourceTemplate{{UriTemplate: "t:{x}", Name: "n", Description: "d", Asks: true}},
		Prompts:           []*providerpb.Prompt{{Name: "p", Description: "d", ArgsSchema: `{"type":"object"}`, Asks: true}}}}, asking)
	contents := &providerpb.InteractResponse{Message: &providerpb.InteractResponse_Resource{Resource: &providerpb.ReadResourceResponse{Contents: []*providerpb.ResourceContents{{Uri: "a:b", Contents: &providerpb.ResourceContents_Text{Text: "x"}}}}}}
	messages := &providerpb.InteractResponse{Message: &providerpb.InteractResponse_Prompt{Prompt: &providerpb.GetPromptResponse{Messages: []*providerpb.PromptMessage{{Role: providerpb.Role_ROLE_ASSISTANT, Content: textOf("x")}}}}}
	for _, c := range []struct {
		method, subject string
		answer          *providerpb.InteractResponse
		want            string
	}{
		{"resources/read", `"uri":"a:b",`, contents, `"contents":[{"uri":"a:b","text":"x"}]`},
		{"resources/read", `"uri":"t:1",`, contents, `"contents":[{"uri":"a:b","text":"x"}]`},
		{"resources/read", `"uri":"a:b",`, messages, "[upstream_bad_answer] the provider has answered resources/read with the result of another method"},
		{"prompts/get", `"name":"p",`, messages, `"messages":[{"role":"assistant","content":{"type":"text","text":"x"}}]`},
		{"prompts/get", `"name":"p",`, contents, "[upstream_bad_answer] the provider has answered prompts/get with the result of another method"},
		{"prompts/get", `"name":"p",`, finished(""), "[upstream_bad_answer] the provider has answered prompts/get with the result of another method"},
	} {
		answer = c.answer
		one := r.ask(c.method, c.subject)
		if first := <-of; (first.GetReadResource() == nil) == (c.method == "resources/read") {
			t.Errorf("%s: %v", c.method, first)
		}
		state := stateOf.FindString(one)
		if got := r.ask(c.method, c.subject+state+`,"inputResponses":{"q":{}},`); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s\nwant %s", c.method, got, c.want)
		}
	}
}

// read is a provider's answer to any URI.
func read(_ context.Context, q *providerpb.ReadResourceRequest) (*providerpb.ReadResourceResponse, error) {
	return &providerpb.ReadResourceResponse{Contents: []*providerpb.ResourceContents{{Uri: q.GetUri(), Contents: &providerpb.ResourceContents_Text{Text: "x"}}}}, nil
}
