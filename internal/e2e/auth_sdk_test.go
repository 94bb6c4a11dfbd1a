package e2e

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"
)

// oauthHandler is the OAuth handler of an SDK client: it gets a token for exactly the scopes of the challenge, at the server that the metadata
// names.
type oauthHandler struct {
	t *testing.T
	i *issuer
	r *rig

	mu    sync.Mutex
	token *oauth2.Token
	asked []string // scopes, in order
}

// TokenSource implements auth.OAuthHandler.
func (c *oauthHandler) TokenSource(context.Context) (oauth2.TokenSource, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.token == nil {
		return nil, nil
	}
	return oauth2.StaticTokenSource(c.token), nil
}

// Authorize implements auth.OAuthHandler.
func (c *oauthHandler) Authorize(_ context.Context, _ *http.Request, res *http.Response) error {
	_ = res.Body.Close()
	all, err := oauthex.ParseWWWAuthenticate(res.Header.Values("WWW-Authenticate"))
	if err != nil || len(all) != 1 {
		c.t.Errorf("the challenge cannot be read: %v %v", all, err)
		return err
	}
	at, found := strings.CutPrefix(all[0].Params["resource_metadata"], authResource)
	meta := c.r.must("GET", at, "")
	resource := textAfter(meta.body, `"resource":"`)
	if !found || meta.status != 200 || resource != authResource+"/mcp" || textAfter(meta.body, `"authorization_servers":["`) != c.i.url {
		c.t.Errorf("metadata at %q: %d %s", all[0].Params["resource_metadata"], meta.status, meta.body)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	scope := all[0].Params["scope"]
	c.asked = append(c.asked, scope)
	c.token = &oauth2.Token{AccessToken: c.i.token("rsa", jose.RS256, map[string]any{"aud": resource, "scope": scope}), TokenType: "Bearer"}
	return nil
}

// A client of the official SDK discovers by itself what it needs: first any token, then one with more scopes.
func TestSDKClientWithTokens(t *testing.T) {
	server := sdkServer(func(string) {})
	behind := newTestServer(t, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	i := newIssuer(t, "rsa")
	r := startRig(t, i.toml("scopes = [\"mcp:use\"]")+"[upstreams.up]\nurl = \""+behind+"\"\nscopes = { \"tool:echo\" = [\"echo\"] }\n", true)
	c := &oauthHandler{t: t, i: i, r: r}
	client := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: r.base + "/mcp", HTTPClient: r.http, OAuthHandler: c}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = session.Close() }()
	if _, err := session.ListTools(t.Context(), nil); err != nil {
		t.Error(err)
	}
	res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "hello"}})
	if err != nil || res.Content[0].(*mcp.TextContent).Text != "hello" {
		t.Errorf("%+v %v", res, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if strings.Join(c.asked, ", ") != "mcp:use, mcp:use echo" {
		t.Errorf("it was asked for %q", c.asked)
	}
}
