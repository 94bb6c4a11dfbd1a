package command

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"dragoman/internal/config/value"
)

const (
	commit = "0123456789abcdef0123456789abcdef01234567"
	digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
)

// Commands as the documents of servers have them, and others. want lists packages as NAME VERSION; or it is what the error says, behind a !.
func TestPackages(t *testing.T) {
	for _, test := range []struct{ command, want string }{
		{"npx -y @scope/server@1.2.3", "@scope/server 1.2.3"},
		{"npx -y @modelcontextprotocol/server-filesystem@2026.8.31 /srv /data", "@modelcontextprotocol/server-filesystem 2026.8.31"},
		{"npx --yes server@1.0.0-rc.1+b2 --port 80", "server 1.0.0-rc.1+b2"},
		{"npx server@v1.2.3", "server 1.2.3"},
		{"/usr/bin/npx -y server@1.2.3", "server 1.2.3"},
		{`C:\node\npx.cmd -y server@1.2.3`, "server 1.2.3"},
		{"npx -y --package=server@1.2.3 run-it", "server 1.2.3"},
		{"npx -p a@1.2.3 -p b@2.0.0 -- run-it", "a 1.2.3, b 2.0.0"},
		{"npx -y -- server@1.2.3", "server 1.2.3"},
		{"npx --registry https://npm.example -y server@1.2.3", "server 1.2.3"},
		{"npx -y ./server", "./server "},
		{"npx -y github:me/server#" + commit, "github:me/server " + commit},
		{"npm exec -y server@1.2.3", "server 1.2.3"},
		{"npm x -- server@1.2.3", "server 1.2.3"},
		{"pnpm dlx server@1.2.3", "server 1.2.3"},
		{"pnpx server@1.2.3", "server 1.2.3"},
		{"yarn dlx -q server@1.2.3", "server 1.2.3"},
		{"bunx --bun server@1.2.3", "server 1.2.3"},
		{"bun x server@1.2.3", "server 1.2.3"},
		{"env A=b npx -y server@1.2.3", "server 1.2.3"},
		{"cmd /c npx -y server@1.2.3", "server 1.2.3"},
		{"uvx server==1.2.3", "server 1.2.3"},
		{"uvx server@1.2", "server 1.2"},
		{"uvx --python 3.12 --from server[cli]==1.2.3rc1 mcp-server", "server[cli] 1.2.3rc1"},
		{"uvx --with extra==2 server==1.2.3", "extra 2, server 1.2.3"},
		{"uvx --from git+https://github.com/me/server@" + commit + " server", "git+https://github.com/me/server " + commit},
		{"uv tool run server==1.2.3", "server 1.2.3"},
		{"pipx run server==1.2.3", "server 1.2.3"},
		{"pipx run --spec server==1.2.3 run-it", "server 1.2.3"},
		{"docker run -i --rm -e TOKEN mcp/server:1.2", "mcp/server 1.2"},
		{"docker run -i --rm --env=TOKEN --mount type=bind,src=/a,dst=/b ghcr.io/me/server@" + digest, "ghcr.io/me/server " + digest},
		{"docker run localhost:5000/server:v1", "localhost:5000/server v1"},
		{"podman run --rm -it registry.example:5000/a/server:v1 --flag latest", "registry.example:5000/a/server v1"},
		{"docker container run server:1", "server 1"},
		{"dnx Some.Server@0.4.0-beta --yes -- mcp start", "Some.Server 0.4.0-beta"},
		{"dnx --source https://nuget.example -y Server@1.2.3.4", "Server 1.2.3.4"},
		{"dotnet tool exec Server@1.2.3", "Server 1.2.3"},
		{"dnx Server@latest", "!write `dnx Server@1.2.3`"},
		{"dnx Server", "!has no fixed version"},
		{"dnx ./server", "!has no fixed version"},
		// Commands that fetch nothing, or whose program is not known.
		{"npx", ""}, {"node server.js", ""}, {"python -m server", ""}, {"docker compose up", ""}, {"docker exec -i x y", ""}, {"npm run server", ""}, {"uv run server.py", ""}, {"/opt/server --npx", ""},
		{"docker", ""}, {"env", ""}, {"cmd /c", ""}, {"", ""},
		// Commands without a fixed version.
		{"npx -y @scope/server", "!write `npx -y @scope/server@1.2.3`"},
		{"npx server@latest", "!write `npx server@1.2.3`"},
		{"npx server@^1.2.3", "!\"server@^1.2.3\" has no fixed version"},
		{"npx server@1", "!no fixed version"}, {"npx server@1.x", "!no fixed version"}, {"npx server@1.2.3||2.0.0", "!no fixed version"}, {"npx server@next", "!no fixed version"},
		{"npx -p a@1.2.3 -p b run", "!\"b\" has no fixed version"},
		{"npx https://evil.example/x.tgz", "!no fixed version"}, {"npx github:me/server", "!no fixed version"}, {"npx github:me/server#main", "!no fixed version"}, {"npx me/server", "!no fixed version"},
		{"npx alias@npm:other@1.2.3", "!no fixed version"},
		{"npx -y -- server", "!no fixed version"},
		{"env A=b npx -y server", "!no fixed version"}, {"cmd /C npx server", "!no fixed version"}, {"NPX.CMD server", "!no fixed version"},
		{"uvx server", "!write `uvx server==1.2.3`"}, {"uvx server@latest", "!no fixed version"}, {"uvx server>=1.2", "!write `uvx server==1.2.3`"}, {"uvx server==1.*", "!no fixed version"},
		{"uvx --from git+https://github.com/me/server server", "!no fixed version"}, {"uvx --from git+https://github.com/me/server@main server", "!no fixed version"},
		{"uvx --with extra server==1.2.3", "!\"extra\" has no fixed version"},
		{"pipx run server", "!write `pipx run server==1.2.3`"},
		{"pnpm dlx server", "!no fixed version"}, {"yarn dlx server", "!no fixed version"}, {"bunx server", "!no fixed version"}, {"bun x server", "!no fixed version"}, {"npm exec server", "!no fixed version"},
		{"docker run -i --rm mcp/server", "!write `docker run -i --rm mcp/server:1.2.3`"}, {"docker run mcp/server:latest", "!write `docker run mcp/server:1.2.3`"},
		{"docker run localhost:5000/server", "!no fixed version"}, {"docker run server@sha256:12", "!no fixed version"}, {"podman run server", "!no fixed version"},
		// Options that are not known, and that could have the package as their value.
		{"npx --odd server@1.2.3 other", "!the option \"--odd\" of npx is not known"}, {"npx -c server", "!the option \"-c\" of npx"}, {"uvx --odd server==1.2.3", "!is not known"},
		{"docker run --odd a:1 b", "!the option \"--odd\" of docker run"}, {"docker run -iv /:/x image:1", "!is not known"}, {"docker run --new=a server:1", "server 1"},
	} {
		all, err := Packages(strings.Fields(test.command))
		if want, wrong := strings.CutPrefix(test.want, "!"); wrong {
			var p *value.Problem
			if !errors.As(err, &p) || !strings.Contains(p.What+"; "+p.Fix, want) || p.Fix == "" || len(all) > 0 && err == nil {
				t.Errorf("%s: %v %v, want %s", test.command, all, err, want)
			}
			continue
		}
		var got []string
		for _, one := range all {
			got = append(got, one.Name+" "+one.Version)
		}
		if err != nil || strings.Join(got, ", ") != test.want {
			t.Errorf("%s: %q %v, want %q", test.command, got, err, test.want)
		}
	}
}

// No command makes it fail, and it says of none that all is well but for a version.
func FuzzPackages(f *testing.F) {
	for _, command := range []string{"npx -y a@1.2.3", "uvx --from a==1 b", "docker run -e A b:1", "env A=b npx", "cmd /c", "npx -p"} {
		f.Add(command)
	}
	f.Fuzz(func(t *testing.T, command string) {
		all, err := Packages(strings.Split(command, " "))
		for _, one := range all {
			if err == nil && (one.Name == "" || one.Version == "" && !local(one.Name)) {
				t.Error(fmt.Sprint(one))
			}
		}
	})
}
