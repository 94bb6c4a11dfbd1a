package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"dragoman/adapters/aggregator"
	"dragoman/internal/testkit"
	"dragoman/internal/testkit/database"
)

// sharing starts Dragomans that share a database, named a, b, ….
func sharing(t *testing.T, url string, n int, more ...string) (all []*aggregated) {
	t.Helper()
	for i := range n {
		toml := strings.Replace(aggregatorToml(t, strings.Join(more, "")), "catalogue.path", "#", 1)
		toml = fmt.Sprintf("catalogue.url = \"env:DATABASE\"\ncatalogue.instance = \"%c\"\n", 'a'+i) + toml
		all = append(all, startAggregator(t, testkit.WriteFile(t, "c.toml", toml), "DATABASE="+url))
	}
	return all
}

// state is what a Dragoman knows of a registered server that all must agree on.
type state struct{ ID, Name, Description, Transport string }

// known returns the registered servers of a Dragoman.
func (a *aggregated) known() (all []state) {
	a.t.Helper()
	var servers []aggregator.Server
	if res := a.ask(viewerKey, "GET", "/servers", "", nil); res.status == 200 {
		if err := json.Unmarshal([]byte(res.body), &servers); err != nil {
			a.t.Fatal(err)
		}
	}
	for _, s := range servers {
		all = append(all, state{s.ID, s.Name, s.Description, s.Transport})
	}
	return all
}

// agree waits until all know the same servers, and returns them.
func agree(t *testing.T, all []*aggregated) (servers []state) {
	t.Helper()
	testkit.Eventually(t, "all agree", func() bool {
		servers = all[0].known()
		for _, a := range all[1:] {
			if !reflect.DeepEqual(a.known(), servers) {
				return false
			}
		}
		return true
	})
	return servers
}

// What is registered at one Dragoman is served by all that share its database, each of which tells how the server is for it.
func TestInstancesShareRegistrations(t *testing.T) {
	all := sharing(t, database.Start(t).Database(t), 3)
	var made aggregator.Server
	all[0].want(201, "POST", "/servers", registration("one", toolsServer(t, "hello"), true), &made)
	for _, a := range all {
		testkit.Eventually(t, "it is served", func() bool { return strings.Contains(a.call("/mcp", "hello").body, "called") })
	}
	for _, a := range all {
		testkit.Eventually(t, "each tells of all", func() bool {
			var s aggregator.Server
			a.want(200, "GET", "/servers/"+made.ID, "", &s)
			names := ""
			for _, one := range s.Instances {
				if one.Status == "CONNECTED" {
					names += one.Name
				}
			}
			return names == "abc" && s.Status == "CONNECTED"
		})
	}
	all[1].want(200, "PATCH", "/servers/"+made.ID, `{"disabled_tools":["hello"]}`, nil)
	for _, a := range all {
		testkit.Eventually(t, "the tool is disabled", func() bool { return !strings.Contains(a.call("/mcp", "hello").body, "called") })
	}
	all[2].want(200, "POST", "/servers/"+made.ID+"/disconnect", "", nil)
	for _, a := range all {
		a.becomes("one", "DISCONNECTED")
	}
	all[2].stop() // it tells the others
	all[0].want(204, "DELETE", "/servers/"+made.ID, "", nil)
	if left := agree(t, all[:2]); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// Changes of colliding names at several Dragomans at once: each is answered, in the end all agree with the database, and nothing is left of what
// was removed.
func TestConcurrentChangesOfInstances(t *testing.T) {
	url := database.Start(t).Database(t)
	all := sharing(t, url, 3)
	server := toolsServer(t, "hello")
	const each, names = 5, 20
	var mu sync.Mutex
	statuses := map[int]int{}
	var running sync.WaitGroup
	for i := range 2 * names { // two at a time collide
		running.Go(func() {
			name := fmt.Sprintf("s%d", i%names)
			for n := range each {
				a := all[(i+n)%len(all)]
				var res *response
				switch (i/names + n) % each {
				case 0, 3:
					res = a.ask(operatorKey, "POST", "/servers", registration(name, server, n%2 == 0), nil)
				case 1, 4:
					res = a.ask(operatorKey, "PATCH", "/servers/"+name, fmt.Sprintf(`{"description":"%d of %d"}`, n, i), nil)
				default:
					res = a.ask(operatorKey, "DELETE", "/servers/"+name, "", nil)
				}
				mu.Lock()
				statuses[res.status]++
				mu.Unlock()
				if res.status >= 500 {
					t.Errorf("%d %s", res.status, res.body)
				}
			}
		})
	}
	running.Wait()
	began := time.Now()
	servers := agree(t, all)
	t.Logf("%d changes were answered %v; all agree on %d servers after %s", 2*names*each, statuses, len(servers), time.Since(began).Round(time.Millisecond))
	if statuses[201] < names || statuses[409] == 0 || statuses[200] == 0 || statuses[204] == 0 {
		t.Errorf("answers %v", statuses)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	testkit.Eventually(t, "the database has what all know", func() bool {
		rows, err := conn.Query(t.Context(), "SELECT id, name, description, transport_type FROM mcp.external_servers ORDER BY name")
		if err != nil {
			t.Fatal(err)
		}
		stored, err := pgx.CollectRows(rows, pgx.RowToStructByPos[state])
		if err != nil {
			t.Log(err) // a row without a registration
			return false
		}
		return len(stored) == len(servers) && reflect.DeepEqual(stored, servers)
	})
	for _, s := range servers {
		all[0].want(204, "DELETE", "/servers/"+s.ID, "", nil)
	}
	if left := agree(t, all); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	testkit.Eventually(t, "nothing is orphaned", func() bool {
		var n int
		if err := conn.QueryRow(t.Context(), "SELECT (SELECT count(*) FROM mcp.external_servers) + (SELECT count(*) FROM mcp.tools) + (SELECT count(*) FROM mcp.server_status) + (SELECT count(*) FROM mcp.resource_owners)").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n == 0
	})
}

// While the database is away everything is served, changes are refused with the reason, and what others have changed is caught up with when it
// is back.
func TestDatabaseAway(t *testing.T) {
	p := database.Start(t)
	all := sharing(t, p.Database(t), 2)
	a, b := all[0], all[1]
	a.want(201, "POST", "/servers", registration("one", toolsServer(t, "hello"), true), nil)
	for _, one := range all {
		testkit.Eventually(t, "it is served", func() bool { return strings.Contains(one.call("/mcp", "hello").body, "called") })
	}
	p.Stop()
	testkit.Eventually(t, "the loss is noticed", func() bool { return strings.Contains(b.logs.String(), "is lost") })
	for _, one := range all {
		if res := one.call("/mcp", "hello"); !strings.Contains(res.body, "called") {
			t.Errorf("not served: %s", res.body)
		}
		for verb, path := range map[string]string{"POST": "/servers", "DELETE": "/servers/one", "PATCH": "/servers/one"} {
			body := map[string]string{"POST": registration("two", toolsServer(t, "x"), true), "PATCH": `{"description":"x"}`}[verb]
			if res := one.ask(operatorKey, verb, path, body, nil); res.status != 503 || !strings.Contains(res.body, "nothing was changed") {
				t.Errorf("%s: %d %s", verb, res.status, res.body)
			}
		}
		if known := one.known(); len(known) != 1 {
			t.Errorf("known: %v", known)
		}
	}
	p.Begin(t)
	testkit.Eventually(t, "changes are taken again", func() bool {
		return a.ask(operatorKey, "POST", "/servers", registration("two", toolsServer(t, "bye"), true), nil).status == 201
	})
	testkit.Eventually(t, "the other one serves it", func() bool { return strings.Contains(b.call("/mcp", "bye").body, "called") })
}

// A Dragoman that starts while the database is away serves its configuration, and the registered servers once the database is back.
func TestStartWithoutDatabase(t *testing.T) {
	p := database.Start(t)
	url := p.Database(t)
	first := sharing(t, url, 1)[0]
	first.want(201, "POST", "/servers", registration("one", toolsServer(t, "hello"), true), nil)
	first.stop()
	p.Stop()
	a := sharing(t, url, 1)[0]
	if res := a.ask(operatorKey, "POST", "/servers", registration("two", toolsServer(t, "x"), true), nil); res.status != 503 {
		t.Errorf("%d %s", res.status, res.body)
	}
	p.Begin(t)
	testkit.Eventually(t, "the registered server is served", func() bool { return strings.Contains(a.call("/mcp", "hello").body, "called") })
}

// What is approved at one Dragoman is approved at all that share its database.
func TestApprovalOfInstances(t *testing.T) {
	url, server := database.Start(t).Database(t), newFickle(t)
	all := sharing(t, url, 2, "[upstreams.one]\nurl = \""+server.url+"\"\ndefinitions = \"approve\"\n")
	works := func(a *aggregated) bool { return strings.Contains(a.call("/servers/one/mcp", "greet").body, "called") }
	for _, a := range all {
		testkit.Eventually(t, "the first definition is approved", func() bool { return works(a) })
	}
	server.tool("greet", "Greets otherwise.")
	for _, a := range all {
		testkit.Eventually(t, "the second one is held", func() bool { return !works(a) })
	}
	all[0].want(200, "POST", "/servers/one/approve", "", nil)
	for _, a := range all {
		testkit.Eventually(t, "it is approved", func() bool { return works(a) })
	}
}
