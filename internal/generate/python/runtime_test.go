package python

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/goccy/go-json"

	"dragoman/internal/generate"
	"dragoman/internal/testkit"
)

// real returns a Python with what generated packages need, and what judges them.
func real(t *testing.T) string {
	return testkit.Python(t, "httpx==0.28.1", "pydantic==2.14.4", "mypy==2.4.1", "ruff==0.17.6")
}

// write writes the package for a service, and returns the folder above it.
func write(t *testing.T, services ...*generate.Service) string {
	t.Helper()
	dir := t.TempDir()
	put := func(name string, data []byte) {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, u := range Common() {
		for _, f := range u.Files {
			put(filepath.Join(u.Dir, f.Path), f.Data)
		}
	}
	for _, s := range services {
		for _, f := range Files(s) {
			put(filepath.Join("python", Package, Modules([]string{s.Name})[0], f.Path), f.Data)
		}
	}
	return filepath.Join(dir, "python")
}

func tools() []*generate.Tool {
	return []*generate.Tool{{Name: "create_issue", Title: "Create an issue", Description: "Creates an issue.", Input: json.RawMessage(issue), Output: json.RawMessage(result)},
		{Name: "import", Input: json.RawMessage(`{}`)}, {Name: "list", Input: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`), Output: json.RawMessage(`{"type":"array","items":{"type":"string"}}`)}}
}

// The package satisfies ruff and the type checker at its strictest, and so does a program that uses it; one that uses it wrongly does not.
func TestTypes(t *testing.T) {
	program := real(t)
	dir := write(t, service(tools()...))
	use := `from mcp_clients import Client
from mcp_clients.issue_tracker.create_issue import CreateIssueLabel, create_issue

with Client() as client:
    result = create_issue(client, title="x", state="open", labels=[CreateIssueLabel(name="bug", list_=[1, "a"])], more="extra")
    number: int = result.structured.number
    login: str = result.structured.owner.login if result.structured.owner else result.text
`
	for name, text := range map[string]string{"right.py": use, "wrong.py": strings.Replace(use, `state="open"`, `state="shut"`, 1), "missing.py": strings.Replace(use, `title="x", `, "", 1), "result.py": strings.Replace(use, "number: int", "number: str", 1)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) (string, error) {
		c := exec.Command(program, append([]string{"-m"}, args...)...)
		c.Dir = dir
		out, err := c.CombinedOutput()
		return string(out), err
	}
	if out, err := run("ruff", "check", "--quiet", "--no-cache", "."); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	out, err := run("mypy", "--strict", "--no-incremental", Package, "right.py", "wrong.py", "missing.py", "result.py")
	if err == nil || strings.Count(out, "error:") != 3 || strings.Count(out, "wrong.py:") == 0 || strings.Count(out, "missing.py:") == 0 || strings.Count(out, "result.py:") == 0 {
		t.Errorf("%v\n%s", err, out)
	}
}

// envelopes answers calls of the tools: what the argument title asks for.
func envelopes(t *testing.T) (url string, last func() (*http.Request, string)) {
	var mu sync.Mutex
	var request *http.Request
	var body string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var call struct {
			Tool      string
			Arguments struct{ Title string }
			State     string         `json:"request_state"`
			Responses map[string]any `json:"input_responses"`
		}
		raw, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(raw, &call)
		mu.Lock()
		request, body = r, string(raw)
		mu.Unlock()
		const good = `{"success":true,"data":{"content":[{"type":"text","text":"done"},{"type":"image","data":"eA=="},{"type":"text","text":"twice"}],"structuredContent":{"number":7,"owner":{"login":"ada","extra":1}}},"request_id":"x"}`
		failed := func(status int, code string) {
			w.WriteHeader(status)
			_, _ = fmt.Fprintf(w, `{"success":false,"error":"it says %s","code":%q,"meta":{"result":{"content":[]}}}`, code, code)
		}
		switch title := call.Arguments.Title; {
		case r.Header.Get("Accept") == "text/event-stream" && title == "cut":
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = w.Write([]byte("event: progress\ndata: {\"progress\":1}\n\n"))
		case r.Header.Get("Accept") == "text/event-stream" && title != "json":
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = w.Write([]byte(": comment\r\n\r\nevent: progress\r\ndata: {\"progress\":1,\ndata: \"total\":2,\"message\":\"m\"}\r\n\r\nevent: log\ndata: {\"level\":\"info\",\"data\":[1]}\n\nevent: result\ndata: " + good + "\n\n"))
		case title == "ask" && call.State == "":
			_, _ = w.Write([]byte(`{"success":true,"data":{"result_type":"input_required","input_requests":{"q":{"method":"elicitation/create"}},"request_state":"s1"}}`))
		case title == "ask" && call.State == "s1" && call.Responses["q"] != nil:
			_, _ = w.Write([]byte(good))
		case title == "slow":
			<-r.Context().Done()
		case title == "text":
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte("<h1>"))
		case title == "moved":
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		case title == "isError":
			_, _ = w.Write([]byte(`{"success":true,"data":{"isError":true,"content":[{"type":"text","text":"by itself"}]}}`))
		case title == "wrong result":
			_, _ = w.Write([]byte(`{"success":true,"data":{"content":[],"structuredContent":{"number":"seven"}}}`))
		case strings.HasPrefix(title, "RATE"):
			w.Header().Set("Retry-After", "3")
			failed(429, title)
		case title != "" && strings.ToUpper(title) == title:
			failed(500, title)
		case call.Tool == "list":
			_, _ = w.Write([]byte(`{"success":true,"data":{"content":[],"structuredContent":["a","b"]}}`))
		default:
			_, _ = w.Write([]byte(good))
		}
	}))
	t.Cleanup(srv.Close)
	return srv.URL, func() (*http.Request, string) {
		mu.Lock()
		defer mu.Unlock()
		return request, body
	}
}

// calls makes every kind of call with both clients, and asserts their results.
const calls = `import asyncio
import sys

import mcp_clients as m
from mcp_clients.issue_tracker.create_issue import create_issue, create_issue_async
from mcp_clients.issue_tracker.list_ import list_, list__async

url = sys.argv[1]
OPEN = "open"


def fails(kind, call, **want):
    try:
        call()
    except m.ToolError as error:
        assert type(error) is kind, (type(error), error)
        for name, value in want.items():
            assert getattr(error, name) == value, (name, getattr(error, name))
        return str(error)
    raise AssertionError("no error")


def check(call, listed, client, answer):
    result = call(client, title="x", state=OPEN)
    assert result.text == "done\ntwice", result.text
    assert result.structured.number == 7 and result.structured.owner.login == "ada" and result.structured.owner.model_extra == {"extra": 1}
    assert len(result.content) == 3 and result.raw["structuredContent"]["number"] == 7
    assert listed(client).structured == ["a", "b"]
    progress, logs = [], []
    call(client.options(on_progress=progress.append, on_log=logs.append), title="x", state=OPEN)
    assert progress == [m.Progress(1, 2, "m")] and logs == [m.Log("info", None, [1])], (progress, logs)
    call(client.options(on_progress=progress.append), title="json", state=OPEN)
    for code, kind in [("TOOL_NOT_FOUND", m.ToolNotFoundError), ("INVALID_ARGUMENTS", m.InvalidArgumentsError), ("EXECUTION_ERROR", m.ExecutionError), ("INTERNAL_ERROR", m.InternalError),
                       ("TIMEOUT", m.CallTimeoutError), ("SERVICE_UNAVAILABLE", m.ServiceUnavailableError), ("SOMETHING_ELSE", m.ToolError)]:
        assert fails(kind, lambda: call(client, title=code, state=OPEN), code=code, status=500, result={"content": []}) == "it says " + code
    fails(m.RateLimitedError, lambda: call(client, title="RATE_LIMITED", state=OPEN), status=429, retry_after=3.0)
    assert fails(m.ExecutionError, lambda: call(client, title="isError", state=OPEN), code="EXECUTION_ERROR") == "by itself"
    fails(m.InvalidResultError, lambda: call(client, title="wrong result", state=OPEN))
    assert "no envelope" in fails(m.TransportError, lambda: call(client, title="text", state=OPEN), status=200)
    assert "status 307" in fails(m.TransportError, lambda: call(client, title="moved", state=OPEN), status=307)
    assert "ended before its result" in fails(m.TransportError, lambda: call(client.options(on_progress=progress.append), title="cut", state=OPEN))
    fails(m.InputRequiredError, lambda: call(client, title="ask", state=OPEN), requests={"q": {"method": "elicitation/create"}})
    assert call(client.options(on_question=answer), title="ask", state=OPEN).structured.number == 7
    fails(m.TransportError, lambda: call(client.options(timeout=0.2), title="slow", state=OPEN))


with m.Client(urls={"issue-tracker": url + "/"}, tokens={"issue-tracker": "secret"}) as client:
    check(create_issue, list_, client, lambda requests: {"q": {"action": "accept"}})


async def answered(requests):
    return {"q": {"action": "accept"}}


with asyncio.Runner() as runner:
    client = m.AsyncClient(urls={"issue-tracker": url})
    check(lambda *args, **kwargs: runner.run(create_issue_async(*args, **kwargs)), lambda *args: runner.run(list__async(*args)), client, answered)
    runner.run(client.close())
print("done")
`

func TestRuntime(t *testing.T) {
	program := real(t)
	url, last := envelopes(t)
	dir := write(t, service(tools()...))
	if err := os.WriteFile(filepath.Join(dir, "calls.py"), []byte(calls), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(program, "calls.py", url)
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil || string(out) != "done\n" {
		t.Fatalf("%v\n%s", err, out)
	}
	one := exec.Command(program, "-c", "from mcp_clients import Client\nfrom mcp_clients.issue_tracker.create_issue import *\nfrom datetime import datetime, timezone\nfrom uuid import UUID\nfrom mcp_clients import OMIT\n"+
		"create_issue(Client(), title='all', state=None, labels=[CreateIssueLabel(name='bug', model_config_=1)], from_=datetime(2026, 1, 2, tzinfo=timezone.utc), day=None, id=UUID(int=7), x_key_1c6e79=1.5, "+
		"parent=CreateIssueNode(next=CreateIssueNode(next=None)), value=['a', ['b']], any={'x': OMIT, 'y': 1}, more='extra')")
	one.Dir = dir
	one.Env = append(os.Environ(), "MCP_URL_ISSUE_TRACKER="+url+"/below/", "MCP_TOKEN_ISSUE_TRACKER=secret")
	if out, err := one.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	r, body := last()
	const want = `{"tool": "create_issue", "arguments": {"more": "extra", "title": "all", "labels": [{"name": "bug", "model_config": 1}], "state": null, "from": "2026-01-02T00:00:00+00:00", "day": null, ` +
		`"id": "00000000-0000-0000-0000-000000000007", "X-Key": 1.5, "parent": {"next": {"next": null}}, "value": ["a", ["b"]], "any": {"y": 1}}}`
	if body != want || r.URL.Path != "/below/call-tool" || r.Header.Get("Authorization") != "Bearer secret" {
		t.Errorf("%s %v\n%s\nwant\n%s", r.URL.Path, r.Header, body, want)
	}
}
