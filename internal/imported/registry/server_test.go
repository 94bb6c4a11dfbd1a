package registry

import (
	"fmt"
	"strings"
	"testing"

	"dragoman/internal/imported"
)

// serverJSON returns a description with packages and remotes.
func serverJSON(members string) []byte {
	return []byte(`{"$schema":"https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json","name":"io.github.me/weather","description":"Weather","version":"1.2.0",` + members + `}`)
}

const stdio = `"transport":{"type":"stdio"}`

// told describes a server in a line: its command or address, then headers and variables; a ! marks a secret.
func told(s *imported.Server) string {
	var parts []string
	for _, text := range s.Command {
		parts = append(parts, text.String())
	}
	if len(s.URL) > 0 {
		parts = append(parts, s.URL.String())
	}
	for _, all := range [][]imported.Setting{s.Headers, s.Env} {
		for _, one := range all {
			mark := ""
			if one.Secret {
				mark = "!"
			}
			parts = append(parts, mark+one.Name+"="+one.Value.String())
		}
	}
	return strings.Join(parts, " ")
}

// values makes values of NAME=VALUE.
func values(pairs ...string) imported.Values {
	v := imported.Values{}
	for _, pair := range pairs {
		name, text, _ := strings.Cut(pair, "=")
		v[name] = append(v[name], text)
	}
	return v
}

// What is started or opened of a description. want is what told says, or behind a ! a part of the error.
func TestOffers(t *testing.T) {
	env := func(fields string) string {
		return `"packages":[{"registryType":"npm","identifier":"weather","version":"1.2.0",` + stdio + `,"environmentVariables":[` + fields + `]}]`
	}
	args := func(kind, identifier, arguments string) string {
		return fmt.Sprintf(`"packages":[{"registryType":%q,"identifier":%q,"version":"1.2.0",%s,%s}]`, kind, identifier, stdio, arguments)
	}
	remote := func(members string) string { return `"remotes":[{"type":"streamable-http",` + members + `}]` }
	for name, test := range map[string]struct {
		json  string
		given imported.Values
		want  string
	}{
		"npm":                     {args("npm", "@me/weather", `"runtimeHint":"npx"`), nil, "npx -y @me/weather@1.2.0"},
		"npm, a switch twice":     {args("npm", "weather", `"runtimeArguments":[{"type":"named","name":"-y"}]`), nil, "npx -y weather@1.2.0"},
		"npm, another registry":   {args("npm", "weather", `"registryBaseUrl":"https://npm.example.com"`), nil, "npx -y --registry=https://npm.example.com weather@1.2.0"},
		"npm, the usual registry": {args("npm", "weather", `"registryBaseUrl":"https://registry.npmjs.org/"`), nil, "npx -y weather@1.2.0"},
		"pypi":                    {args("pypi", "weather", `"runtimeHint":"uvx","registryBaseUrl":"https://pypi.org"`), nil, "uvx weather@1.2.0"},
		"pypi, a version of Python": {args("pypi", "weather", `"runtimeArguments":[{"type":"named","name":"--python","value":"3.12"}]`), nil,
			"uvx --python=3.12 weather@1.2.0"},
		"nuget": {args("nuget", "Weather.Server", `"runtimeHint":"dnx","packageArguments":[{"type":"positional","value":"mcp"},{"type":"positional","value":"start"}]`), nil,
			"dnx Weather.Server@1.2.0 --yes -- mcp start"},
		"oci":              {args("oci", "docker.io/me/weather", `"runtimeHint":"docker"`), nil, "docker run -i --rm docker.io/me/weather:1.2.0"},
		"oci, its own tag": {`"packages":[{"registryType":"oci","identifier":"ghcr.io/me/weather:2.0",` + stdio + `}]`, nil, "docker run -i --rm ghcr.io/me/weather:2.0"},
		"oci, podman":      {args("oci", "ghcr.io/me/weather", `"runtimeHint":"podman"`), nil, "podman run -i --rm ghcr.io/me/weather:1.2.0"},
		"oci, a variable as an option": {args("oci", "me/weather", `"runtimeArguments":[{"type":"positional","value":"run"},{"type":"named","name":"-i"},{"type":"named","name":"--rm"},{"type":"named","name":"-it"},
			{"type":"named","name":"-e","value":"KEY={key}","variables":{"key":{"isSecret":true,"isRequired":true}}}]`), values("key=env:WEATHER"), "docker run -i --rm -e KEY me/weather:1.2.0 !KEY=${WEATHER}"},
		"oci, a mount": {args("oci", "me/weather", `"runtimeArguments":[{"type":"named","name":"--mount","value":"type=bind,src={source},dst={target}","isRepeated":true,
			"variables":{"source":{"format":"filepath","isRequired":true},"target":{"isRequired":true,"default":"/project"}}}]`), values("source=/srv"), "docker run -i --rm --mount=type=bind,src=/srv,dst=/project me/weather:1.2.0"},
		"oci, all rights": {args("oci", "me/weather", `"runtimeArguments":[{"type":"named","name":"--privileged"}]`), nil, `!hands "--privileged" to docker`},
		"oci, a device":   {args("oci", "me/weather", `"runtimeArguments":[{"type":"positional","value":"--device=/dev/sda"}]`), nil, `!hands "--device=/dev/sda" to docker`},
		"oci, another program": {args("oci", "me/weather", `"runtimeArguments":[{"type":"named","name":"--entrypoint","value":"sh"}]`), nil,
			`!hands "--entrypoint=sh" to docker`},
		"oci, latest": {`"packages":[{"registryType":"oci","identifier":"me/weather:latest",` + stdio + `}]`, nil, "!no fixed version"},

		// Arguments of packages.
		"positional":         {args("npm", "files", `"packageArguments":[{"type":"positional","valueHint":"dir","isRequired":true,"isRepeated":true}]`), values("dir=/a", "dir=/b"), "npx -y files@1.2.0 /a /b"},
		"positional, once":   {args("npm", "files", `"packageArguments":[{"type":"positional","valueHint":"dir","isRequired":true}]`), values("dir=/a", "dir=/b"), "!has several values"},
		"named":              {args("npm", "files", `"packageArguments":[{"type":"named","name":"--port","default":"80","format":"number"},{"type":"named","name":"-v","description":"level"}]`), values("v=2"), "npx -y files@1.2.0 --port=80 -v 2"},
		"named, a switch":    {args("npm", "files", `"packageArguments":[{"type":"named","name":"--stdio"}]`), nil, "npx -y files@1.2.0 --stdio"},
		"named, not given":   {args("npm", "files", `"packageArguments":[{"type":"named","name":"--port","description":"p"}]`), nil, "npx -y files@1.2.0"},
		"a hyphen in it":     {args("npm", "files", `"packageArguments":[{"type":"named","name":"--dir","description":"d"}]`), values("dir=--evil"), "npx -y files@1.2.0 --dir=--evil"},
		"two of a name":      {args("npm", "files", `"packageArguments":[{"type":"positional","valueHint":"x"},{"type":"named","name":"--x","description":"d"}]`), values("x=1", "x-2=2"), "npx -y files@1.2.0 1 --x=2"},
		"braces":             {args("npm", "files", `"packageArguments":[{"type":"positional","value":"{\"a\":{b}} {c}","variables":{"c":{"default":"d"}}}]`), nil, `npx -y files@1.2.0 {"a":{b}} d`},
		"a secret argument":  {args("npm", "files", `"packageArguments":[{"type":"named","name":"--key","isSecret":true,"isRequired":true}]`), nil, "!wants a secret as the argument key"},
		"an optional secret": {args("npm", "files", `"packageArguments":[{"type":"named","name":"--key","isSecret":true}]`), nil, "npx -y files@1.2.0"},
		"a reference":        {args("npm", "files", `"packageArguments":[{"type":"positional","valueHint":"x"}]`), values("x=env:HOME"), "!a reference stands in an argument"},
		"a repeated reference": {args("npm", "files", `"packageArguments":[{"type":"positional","valueHint":"x","isRepeated":true}]`), values("x=a", "x=file:/etc/passwd"),
			"!a reference stands in an argument"},
		"a choice":       {args("npm", "files", `"packageArguments":[{"type":"positional","valueHint":"x","choices":["a","b"]}]`), values("x=c"), "!is none of its values"},
		"no number":      {args("npm", "files", `"packageArguments":[{"type":"positional","valueHint":"x","format":"number"}]`), values("x=0x10"), "!is no number"},
		"no such name":   {args("npm", "files", `"packageArguments":[{"type":"positional","valueHint":"x"}]`), values("y=1"), "!there is no variable y"},
		"a control":      {args("npm", "files", `"packageArguments":[{"type":"positional","value":"a\u0000b"}]`), nil, "!control characters"},
		"no type":        {args("npm", "files", `"packageArguments":[{"value":"x"}]`), nil, "!has the type"},
		"a hostile name": {args("npm", "files", `"packageArguments":[{"type":"named","name":"--a b; rm -rf /"}]`), nil, "!is no name of an argument"},

		// What could have another program started.
		"npx calls":              {args("npm", "weather", `"runtimeArguments":[{"type":"named","name":"--call","value":"rm -rf /"}]`), nil, "!hands"},
		"npx, another package":   {args("npm", "weather", `"runtimeArguments":[{"type":"named","name":"--package","value":"evil@1.0.0"}]`), nil, "!hands"},
		"uvx, another package":   {args("pypi", "weather", `"runtimeArguments":[{"type":"named","name":"--from","value":"evil==1.0"}]`), nil, "!hands"},
		"uvx, one more":          {args("pypi", "weather", `"runtimeArguments":[{"type":"named","name":"--with","value":"evil==1.0"}]`), nil, "!hands"},
		"npm, a range":           {`"packages":[{"registryType":"npm","identifier":"weather","version":"^1.0.0",` + stdio + `}]`, nil, "!no fixed version"},
		"npm, no version":        {`"packages":[{"registryType":"npm","identifier":"weather",` + stdio + `}]`, nil, "!no fixed version"},
		"npm, a directory":       {`"packages":[{"registryType":"npm","identifier":"../../etc",` + stdio + `}]`, nil, "!with a fixed version"},
		"npm, a path":            {args("npm", "../../../tmp/x", `"runtimeHint":"npx"`), nil, "!with a fixed version"},
		"npm, an option":         {args("npm", "--call=sh", `"runtimeHint":"npx"`), nil, "!with a fixed version"},
		"npm, two words":         {args("npm", "weather -c evil", `"runtimeHint":"npx"`), nil, "!no fixed version"},
		"npm, another protocol":  {args("npm", "weather", `"registryBaseUrl":"http://npm.example.com"`), nil, "!is no https URL"},
		"npm, a shell":           {args("npm", "weather", `"runtimeHint":"sh -c"`), nil, "npx -y weather@1.2.0"},
		"cargo":                  {args("cargo", "weather", `"runtimeHint":"x"`), nil, "!packages of cargo cannot be started"},
		"a package that listens": {`"packages":[{"registryType":"npm","identifier":"w","version":"1.0.0","transport":{"type":"streamable-http","url":"http://localhost:8080/mcp"}}]`, nil, "!it serves streamable-http at http://localhost:8080/mcp"},

		// Variables of the environment.
		"a secret":             {env(`{"name":"KEY","isSecret":true,"isRequired":true}`), values("KEY=env:WEATHER"), "npx -y weather@1.2.0 !KEY=${WEATHER}"},
		"a secret in a file":   {env(`{"name":"KEY","isSecret":true,"isRequired":true}`), values("KEY=file:/run/key"), "npx -y weather@1.2.0 !KEY=${file:/run/key}"},
		"a secret as it is":    {env(`{"name":"KEY","isSecret":true}`), values("KEY=hunter2"), "!is a secret and is no reference"},
		"a default":            {env(`{"name":"UNITS","default":"metric"}`), nil, "npx -y weather@1.2.0 UNITS=metric"},
		"a default to read":    {env(`{"name":"UNITS","default":"env:AWS_SECRET_ACCESS_KEY"}`), nil, "npx -y weather@1.2.0"},
		"a fixed one":          {env(`{"name":"A","value":"b"}`), nil, "npx -y weather@1.2.0 A=b"},
		"a fixed reference":    {env(`{"name":"A","value":"env:AWS_SECRET_ACCESS_KEY"}`), nil, "!would read secrets"},
		"a fixed file":         {env(`{"name":"A","value":"file:/etc/shadow"}`), nil, "!would read secrets"},
		"a fixed text":         {env(`{"name":"A","value":"x${AWS_SECRET_ACCESS_KEY}"}`), nil, "!would read secrets"},
		"a reference by parts": {env(`{"name":"A","value":"env:{x}","variables":{"x":{"isRequired":true}}}`), values("x=HOME"), "!would read secrets"},
		"a text with ${":       {env(`{"name":"A"}`), values("A=${HOME}"), "!contains ${"},
		"no name":              {env(`{"name":"A B","value":"b"}`), nil, "!is no name of a variable"},
		"twice":                {env(`{"name":"A","value":"b"},{"name":"A","value":"c"}`), nil, "!is there twice"},
		"part of a value":      {env(`{"name":"URL","value":"https://x/{key}","isSecret":true,"variables":{"key":{}}}`), values("key=env:K"), "npx -y weather@1.2.0 !URL=https://x/${K}"},
		"part is not given":    {env(`{"name":"URL","value":"https://x/{key}","variables":{"key":{}}}`), nil, "npx -y weather@1.2.0"},
		"a file in part":       {env(`{"name":"URL","value":"https://x/{key}","variables":{"key":{}}}`), values("key=file:/k"), "!cannot refer to a file"},

		// Remotes.
		"remote":               {remote(`"url":"https://weather.example.com/mcp"`), nil, "https://weather.example.com/mcp"},
		"remote, a header":     {remote(`"url":"https://w.example/mcp","headers":[{"name":"Authorization","value":"Bearer {token}","variables":{"token":{"isSecret":true,"isRequired":true}}}]`), values("token=env:T"), "https://w.example/mcp !Authorization=Bearer ${T}"},
		"remote, a region":     {remote(`"url":"https://{region}.w.example/mcp","variables":{"region":{"choices":["eu","us"],"default":"eu"}}`), values("region=us"), "https://us.w.example/mcp"},
		"remote, no region":    {remote(`"url":"https://{region}.w.example/mcp","variables":{"region":{}}`), nil, "!lacks a value"},
		"remote, a base":       {remote(`"url":"{base}/mcp","variables":{"base":{"isRequired":true}}`), values("base=env:HOME"), "!its address cannot refer to a secret"},
		"remote, no URL":       {remote(`"url":"javascript:alert(1)"`), nil, "!is no http or https URL"},
		"remote, a secret":     {remote(`"url":"https://w.example/mcp?key={key}","variables":{"key":{"isSecret":true}}`), nil, "!its address holds a secret"},
		"remote, a password":   {remote(`"url":"https://a:b@w.example/mcp"`), nil, "!its address holds a credential"},
		"remote, reads":        {remote(`"url":"https://w.example/${HOME}"`), nil, "!would read secrets"},
		"remote, two lines":    {remote(`"url":"https://w.example/","headers":[{"name":"A\r\nB","value":"x"}]`), nil, "!is no name of a header"},
		"remote, header twice": {remote(`"url":"https://w.example/","headers":[{"name":"A","value":"x"},{"name":"a","value":"y"}]`), nil, "!is there twice"},
		"sse":                  {`"remotes":[{"type":"sse","url":"https://w.example/sse"}]`, nil, "https://w.example/sse"},
		"carrier pigeons":      {`"remotes":[{"type":"rfc1149","url":"https://w.example/sse"}]`, nil, "!its transport \"rfc1149\" is not known"},
		"a bundle":             {`"packages":[{"registryType":"mcpb","identifier":"https://x.example/w.mcpb",` + stdio + `}]`, nil, "!it has no SHA-256"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Parse(serverJSON(test.json))
			if err != nil {
				t.Fatal(err)
			}
			var got string
			if one, err := s.Offers("here")[0].Server(test.given); err != nil {
				got = "!" + err.Error()
			} else {
				got = told(one)
			}
			if part, fails := strings.CutPrefix(test.want, "!"); got != test.want && (!fails || got[0] != '!' || !strings.Contains(got, part)) {
				t.Errorf("%s; want %s", got, test.want)
			}
			if strings.Contains(got, "hunter2") {
				t.Errorf("a secret is shown: %s", got)
			}
		})
	}
}

func TestChoose(t *testing.T) {
	const (
		npm    = `{"registryType":"npm","identifier":"w","version":"1.0.0",` + stdio + `}`
		keyed  = `{"registryType":"npm","identifier":"w","version":"1.0.0",` + stdio + `,"environmentVariables":[{"name":"KEY","isRequired":true}]}`
		broken = `{"registryType":"cargo","identifier":"w","version":"1.0.0",` + stdio + `}`
		remote = `{"type":"streamable-http","url":"https://w.example/mcp"}`
		asking = `{"type":"streamable-http","url":"https://w.example/mcp","headers":[{"name":"X-Key","isRequired":true}]}`
		old    = `{"type":"sse","url":"https://w.example/sse"}`
	)
	for name, test := range map[string]struct {
		packages, remotes, kind string
		given                   imported.Values
		want                    string
	}{
		"the remote":               {npm, remote, "", nil, KindRemote},
		"nothing to give":          {npm, asking, "", nil, KindNPM},
		"the package wants more":   {keyed, remote, "", nil, KindRemote},
		"what is given counts":     {keyed, old, "", values("KEY=1"), KindNPM},
		"HTTP+SSE comes last":      {npm, old, "", nil, KindNPM},
		"HTTP+SSE alone":           {"", old, "", nil, KindSSE},
		"the kind that is named":   {npm, remote, KindNPM, nil, KindNPM},
		"what can be used":         {broken + "," + npm, "", "", nil, KindNPM},
		"a kind that is not there": {npm, remote, KindPyPI, nil, "!it has no pypi; fix: leave --package out, or write npm or remote"},
		"a kind that is not known": {npm, remote, "cargo", nil, "!--package cargo is not known"},
		"nothing can be used":      {broken, "", "", nil, "!nothing of it can be used:\n  cargo package w 1.0.0: packages of cargo"},
		"nothing":                  {"", "", "", nil, "!neither a package nor a remote"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Parse(serverJSON(`"packages":[` + test.packages + `],"remotes":[` + test.remotes + `]`))
			if err != nil {
				t.Fatal(err)
			}
			got, err := Choose(s.Offers(""), test.kind, test.given)
			if part, fails := strings.CutPrefix(test.want, "!"); fails {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("%v; want %s", err, test.want)
				}
				return
			}
			if err != nil || got.Kind != test.want {
				t.Errorf("%v %v; want %s", got, err, test.want)
			}
		})
	}
}

// Descriptions that are refused as a whole.
func TestParse(t *testing.T) {
	named := func(name string) string { return fmt.Sprintf(`{"name":%q,"description":"d","version":"1.0.0"}`, name) }
	for what, test := range map[string]struct{ json, want string }{
		"valid":            {named("io.github.me/weather"), ""},
		"a homoglyph":      {named("io.github.mе/weather"), "is no name"}, // the second e is Cyrillic
		"backwards":        {named("io.github.me/\u202ereh\u202c"), `me/\\u202ereh`},
		"no namespace":     {named("weather"), "is no name"},
		"two slashes":      {named("io.github/me/weather"), "is no name"},
		"up":               {named("../etc"), ""}, // a name is no path: see the escape of requests
		"too long":         {named("io.github.me/" + strings.Repeat("x", 200)), "is no name"},
		"no version":       {`{"name":"a/b","description":"d"}`, "is no version"},
		"a blank":          {`{"name":"a/b","description":"d","version":"1 0"}`, "is no version"},
		"no JSON":          {`{"name":`, "not the JSON"},
		"another type":     {`{"name":7}`, "not the JSON"},
		"deep":             {strings.Repeat("[", 10_000), "nested more than 64 deep"},
		"large":            {`{"name":"` + strings.Repeat("x", 1<<20) + `"}`, "more than 1048576 bytes"},
		"many packages":    {`{"name":"a/b","version":"1","packages":[{}` + strings.Repeat(",{}", 64) + `]}`, "more than 64 packages"},
		"many arguments":   {`{"name":"a/b","version":"1","packages":[{"packageArguments":[{}` + strings.Repeat(",{}", 256) + `]}]}`, "more than 256 arguments"},
		"many of a remote": {`{"name":"a/b","version":"1","remotes":[{"headers":[{}` + strings.Repeat(",{}", 256) + `]}]}`, "more than 256 headers"},
	} {
		_, err := Parse([]byte(test.json))
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v; want %q", what, err, test.want)
		}
	}
}

// Whatever a description says, what comes out of it has a fixed version or a URL, and reads no secret that was not given.
func FuzzServerJSON(f *testing.F) {
	for _, seed := range []string{
		`"packages":[{"registryType":"npm","identifier":"@me/w","version":"1.0.0","transport":{"type":"stdio"},"runtimeArguments":[{"type":"named","name":"-y"}],"packageArguments":[{"type":"positional","value":"{x}","variables":{"x":{"default":"y"}}}]}]`,
		`"packages":[{"registryType":"oci","identifier":"me/w:1","transport":{"type":"stdio"},"environmentVariables":[{"name":"A","value":"{b}","variables":{"b":{"isSecret":true}}}]}]`,
		`"remotes":[{"type":"streamable-http","url":"https://{r}.example/mcp","variables":{"r":{"choices":["a"]}},"headers":[{"name":"X","value":"{t}","variables":{"t":{"isRequired":true}}}]}]`,
	} {
		f.Add(serverJSON(seed), "x")
	}
	f.Fuzz(func(t *testing.T, data []byte, text string) {
		s, err := Parse(data)
		if err != nil {
			return
		}
		for _, o := range s.Offers("here") {
			given := imported.Values{}
			for _, v := range o.Variables {
				given[v.Name] = []string{text}
				if v.Secret {
					given[v.Name] = []string{"env:GIVEN"}
				}
			}
			for _, values := range []imported.Values{nil, given} {
				one, err := o.Server(values)
				if err != nil {
					continue
				}
				if len(one.Command) == 0 && !strings.HasPrefix(one.URL.String(), "http") {
					t.Errorf("neither a command nor an address: %s", told(one))
				}
				for _, word := range one.Command {
					if len(word.Variables()) > 0 {
						t.Errorf("an argument refers: %s", told(one))
					}
				}
				for _, setting := range append(one.Headers, one.Env...) {
					literal := ""
					for _, part := range setting.Value {
						if literal += part.Literal; part.Variable != "" && !imported.Refers(text) && part.Variable != "GIVEN" {
							t.Errorf("%s refers to what nobody has given: %s", setting.Name, told(one))
						}
					}
					if len(setting.Value) == 1 && imported.Reads(literal) {
						t.Errorf("%s would be read: %s", setting.Name, told(one))
					}
				}
			}
		}
	})
}
