package bundle

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"dragoman/internal/imported"
)

// entry is an entry of an archive.
type entry struct {
	name, text string
	mode       fs.FileMode
}

// archive returns an archive of entries.
func archive(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		if h.SetMode(0o644); e.mode != 0 {
			h.SetMode(e.mode)
		}
		to, err := w.CreateHeader(h)
		if err == nil {
			_, err = to.Write([]byte(e.text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// manifest returns a manifest of a server of Node.js with more members.
func manifest(server, more string) string {
	if server == "" {
		server = `{"type":"node","entry_point":"server/index.js","mcp_config":{"command":"node","args":["${__dirname}/server/index.js"]}}`
	}
	return `{"manifest_version":"0.3","name":"My Notes","version":"1.0.0","description":"Notes","author":{"name":"Me"},"server":` + server + more + `}`
}

var index = entry{"server/index.js", "// a server", 0}

func read(data []byte, sum string) (*Bundle, error) {
	return Read(bytes.NewReader(data), int64(len(data)), sum)
}

// Archives that are refused before anything is written, and why.
func TestHostileArchives(t *testing.T) {
	good := entry{"manifest.json", manifest("", ""), 0}
	for what, test := range map[string]struct {
		more []entry
		want string
	}{
		"nothing wrong":        {nil, ""},
		"directories":          {[]entry{{"server/", "", fs.ModeDir | 0o755}, {"assets/", "", fs.ModeDir | 0o755}}, ""},
		"up":                   {[]entry{{"../x", "", 0}}, "leads out of the bundle"},
		"up in the middle":     {[]entry{{"a/../../x", "", 0}}, "leads out of the bundle"},
		"absolute":             {[]entry{{"/etc/passwd", "", 0}}, "is absolute"},
		"a drive":              {[]entry{{"C:/x", "", 0}}, "special on Windows"},
		"a backslash":          {[]entry{{`..\x`, "", 0}}, "special on Windows"},
		"a stream":             {[]entry{{"x:y", "", 0}}, "special on Windows"},
		"a link":               {[]entry{{"x", "/etc/passwd", fs.ModeSymlink | 0o777}}, "is a link"},
		"a device":             {[]entry{{"x", "", fs.ModeDevice | 0o600}}, "neither a file nor a directory"},
		"a pipe":               {[]entry{{"x", "", fs.ModeNamedPipe | 0o600}}, "neither a file nor a directory"},
		"a name of a device":   {[]entry{{"a/NUL.txt", "", 0}}, "name of a device"},
		"another":              {[]entry{{"com1", "", 0}}, "name of a device"},
		"a dot at the end":     {[]entry{{"a./x", "", 0}}, "ends with a dot"},
		"twice":                {[]entry{{"x", "", 0}, {"x", "", 0}}, "is in it twice"},
		"twice but for case":   {[]entry{{"Server/Index.js", "", 0}}, "is in it twice"},
		"twice but for form":   {[]entry{{"\u00e9", "", 0}, {"e\u0301", "", 0}}, "is in it twice"},
		"through a file":       {[]entry{{"server/index.js/x", "", 0}}, "leads through a file"},
		"through another":      {[]entry{{"Server/INDEX.js/x", "", 0}}, "leads through a file"},
		"a file and directory": {[]entry{{"x", "", 0}, {"x/", "", fs.ModeDir | 0o755}}, "is in it twice"},
		"an empty part":        {[]entry{{"a//x", "", 0}}, "shortest form"},
		"a dot":                {[]entry{{"./x", "", 0}}, "shortest form"},
		"a control":            {[]entry{{"a\nb", "", 0}}, "no text"},
		"no UTF-8":             {[]entry{{"a\xffb", "", 0}}, "no text"},
		"long":                 {[]entry{{strings.Repeat("x", 256), "", 0}}, "too long"},
		"deep":                 {[]entry{{strings.Repeat("x/", 64) + "x", "", 0}}, "too long"},
		"a bomb":               {[]entry{{"x", strings.Repeat("\x00", 4<<20), 0}}, "more than 200 times"},
		"no entry point":       {[]entry{}, ""},
	} {
		t.Run(what, func(t *testing.T) {
			_, err := read(archive(t, append([]entry{good, index}, test.more...)...), "")
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("%v; want %q", err, test.want)
			}
		})
	}
}

func TestArchives(t *testing.T) {
	data := archive(t, entry{"manifest.json", manifest("", ""), 0}, index)
	sum := sha256.Sum256(data)
	right := hex.EncodeToString(sum[:])
	if b, err := read(data, strings.ToUpper(right)); err != nil || b.SHA256 != right || b.Signed {
		t.Errorf("%v %v", b, err)
	}
	signed := slices.Concat(data, []byte("MCPB_SIG_V1\x04\x00\x00\x00abcdMCPB_SIG_END"))
	if b, err := read(signed, ""); err != nil || !b.Signed {
		t.Errorf("signed: %v %v", b, err)
	}
	liar := bytes.Clone(data) // the sizes of the first entry, in the directory at the end
	at := bytes.Index(liar, []byte("PK\x01\x02"))
	liar[at+24] += 3
	for what, test := range map[string]struct {
		data []byte
		sum  string
		want string
	}{
		"another file":   {data, strings.Repeat("0", 64), "it is another file"},
		"no sum":         {data, "abc", "not 64 hexadecimal digits"},
		"no archive":     {[]byte("hello"), "", "no archive of the form ZIP"},
		"nothing":        {nil, "", "no archive of the form ZIP"},
		"cut off":        {data[:len(data)-30], "", "no archive of the form ZIP"},
		"no manifest":    {archive(t, index), "", "it has no manifest.json"},
		"no entry point": {archive(t, entry{"manifest.json", manifest("", ""), 0}), "", `entry_point "server/index.js" is not in it`},
		"a wrong size":   {liar, "", "manifest.json"},
	} {
		if _, err := read(test.data, test.sum); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v; want %q", what, err, test.want)
		}
	}
}

// Lists of files are bounded before they are in memory, and so is the number of files.
func TestManyFiles(t *testing.T) {
	for name, test := range map[string]struct {
		files, comment int
		want           string
	}{"many": {maxEntries + 1, 0, "more than 100000 files"}, "a long list": {600, 60_000, "list of files has more than"}} {
		var b bytes.Buffer
		w := zip.NewWriter(&b)
		for i := range test.files {
			if _, err := w.CreateHeader(&zip.FileHeader{Name: strconv.Itoa(i), Comment: strings.Repeat("x", test.comment)}); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := read(b.Bytes(), ""); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v; want %q", name, err, test.want)
		}
	}
}

// A bundle is unpacked wholly or not at all, for the user alone, and once.
func TestUnpack(t *testing.T) {
	below := filepath.Join(t.TempDir(), "bundles")
	name := filepath.Join(t.TempDir(), "notes.mcpb")
	data := archive(t, entry{"manifest.json", manifest("", ""), 0}, index, entry{"bin/run", "#!/bin/sh", fs.ModeSetuid | 0o755}, entry{"empty/", "", fs.ModeDir | 0o755})
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := Open(name, "")
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	dir, err := b.Unpack(below)
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(below, "my-notes-1.0.0-"+b.SHA256[:12]); dir != want {
		t.Errorf("%s; want %s", dir, want)
	}
	for name, want := range map[string]fs.FileMode{"": fs.ModeDir | 0o700, "server": fs.ModeDir | 0o700, "server/index.js": 0o600, "bin/run": 0o700, "manifest.json": 0o600} {
		info, err := os.Lstat(filepath.Join(dir, name))
		if err != nil || info.Mode() != want {
			t.Errorf("%s: %v %v; want %v", name, info, err, want)
		}
	}
	if text, _ := os.ReadFile(filepath.Join(dir, "server/index.js")); string(text) != index.text {
		t.Errorf("%q", text)
	}
	if again, err := b.Unpack(below); err != nil || again != dir {
		t.Errorf("again: %s %v", again, err)
	}
	if all, _ := os.ReadDir(below); len(all) != 1 {
		t.Errorf("something is left: %v", all)
	}

	// The file changes after it was read.
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	changed := bytes.Replace(data, []byte("server/index.js"), []byte("server/other.js"), 1) // the header before the file
	if err := os.WriteFile(name, changed, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Unpack(below); err == nil || !strings.Contains(err.Error(), "has changed") {
		t.Errorf("a changed file: %v", err)
	}
	if all, _ := os.ReadDir(below); len(all) != 0 {
		t.Errorf("something is left: %v", all)
	}
}

// Manifests that are refused, and why.
func TestManifests(t *testing.T) {
	server := func(text string) string { return manifest(text, "") }
	option := func(text string) string { return manifest("", `,"user_config":{"x":`+text+`}`) }
	for what, test := range map[string]struct{ json, want string }{
		"0.3":               {manifest("", ""), ""},
		"0.4":               {strings.Replace(manifest("", ""), `"0.3"`, `"0.4"`, 1), ""},
		"the former name":   {strings.Replace(manifest("", ""), "manifest_version", "dxt_version", 1), ""},
		"0.2":               {strings.Replace(manifest("", ""), `"0.3"`, `"0.2"`, 1), `manifest_version "0.2" is not known; known are 0.3 and 0.4`},
		"a later one":       {`{"manifest_version":"1.0","later":{}}`, `manifest_version "1.0" is not known`},
		"no version":        {`{"name":"x"}`, "no manifest_version"},
		"uv in 0.3":         {server(`{"type":"uv","entry_point":"server.py"}`), `server.type "uv" is not known`},
		"uv":                {strings.Replace(server(`{"type":"uv","entry_point":"server.py"}`), `"0.3"`, `"0.4"`, 1), ""},
		"no JSON":           {`{"manifest_version"`, "no JSON"},
		"no UTF-8":          {"\xff", "no UTF-8"},
		"deep":              {`{"manifest_version":"0.3","_meta":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, "nested too deep"},
		"a list":            {`[]`, "no object"},
		"an unknown member": {manifest("", `,"autostart":true`), `"autostart" is not known`},
		"another case":      {manifest("", `,"Server":{}`), `"Server" is not known`},
		"in the server":     {server(`{"type":"node","entry_point":"a.js","mcp_config":{"command":"node"},"shell":true}`), `server: the member "shell"`},
		"in the command":    {server(`{"type":"node","entry_point":"a.js","mcp_config":{"command":"node","cwd":"/"}}`), `server.mcp_config: the member "cwd"`},
		"of a platform":     {server(`{"type":"node","entry_point":"a.js","mcp_config":{"command":"node","platform_overrides":{"linux":{"cwd":"/"}}}}`), `linux: the member "cwd"`},
		"in an option":      {option(`{"type":"string","title":"t","description":"d","hidden":true}`), `x: the member "hidden"`},
		"no command":        {server(`{"type":"node","entry_point":"a.js"}`), "mcp_config is missing"},
		"an empty command":  {server(`{"type":"node","entry_point":"a.js","mcp_config":{"command":" "}}`), "command is missing"},
		"out of it":         {server(`{"type":"node","entry_point":"../a.js","mcp_config":{"command":"node"}}`), "leads out of the bundle"},
		"absolute":          {server(`{"type":"node","entry_point":"/a.js","mcp_config":{"command":"node"}}`), "is absolute"},
		"a control":         {server(`{"type":"node","entry_point":"a.js","mcp_config":{"command":"node","args":["a\u0000"]}}`), "control characters"},
		"no variable":       {server(`{"type":"node","entry_point":"a.js","mcp_config":{"command":"node","env":{"A=B":"c"}}}`), "no name of a variable"},
		"no author":         {strings.Replace(manifest("", ""), `"Me"`, `""`, 1), "author.name is missing"},
		"a wrong type":      {strings.Replace(manifest("", ""), `"1.0.0"`, `{}`, 1), "not of the type"},
		"an option's type":  {option(`{"type":"password","title":"t","description":"d"}`), `type "password" is not known`},
		"its title":         {option(`{"type":"string","description":"d"}`), "title or description"},
		"its default":       {option(`{"type":"number","title":"t","description":"d","default":"5"}`), "default is not of its type"},
		"many":              {option(`{"type":"string","title":"t","description":"d","multiple":true}`), "multiple is for files"},
		"sensitive":         {option(`{"type":"number","title":"t","description":"d","sensitive":true}`), "sensitive is for strings"},
		"min":               {option(`{"type":"string","title":"t","description":"d","min":1}`), "min and max"},
	} {
		_, err := ParseManifest([]byte(test.json))
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v; want %q", what, err, test.want)
		}
	}
}

// told describes a server in a line; a ! marks a secret.
func told(s *imported.Server) string {
	var parts []string
	for _, text := range s.Command {
		parts = append(parts, text.String())
	}
	for _, one := range s.Env {
		mark := ""
		if one.Secret {
			mark = "!"
		}
		parts = append(parts, mark+one.Name+"="+one.Value.String())
	}
	return strings.Join(parts, " ")
}

// What is started of a manifest, in /b and with the home directory /home/me.
func TestPlans(t *testing.T) {
	config := func(members, options string) string {
		return manifest(`{"type":"node","entry_point":"server/index.js","mcp_config":{`+members+`}}`, `,"user_config":{`+options+`}`)
	}
	const (
		dirs  = `"dirs":{"type":"directory","title":"t","description":"d","multiple":true,"default":["${HOME}/a","${DOCUMENTS}"]}`
		key   = `"key":{"type":"string","title":"t","description":"d","sensitive":true,"default":"changeme"}`
		level = `"level":{"type":"number","title":"t","description":"d","min":1,"max":9}`
		bool0 = `"quiet":{"type":"boolean","title":"t","description":"d","default":false}`
		ask   = `"name":{"type":"string","title":"t","description":"d","required":true}`
	)
	for name, test := range map[string]struct {
		json  string
		given imported.Values
		want  string
	}{
		"plain":            {manifest("", ""), nil, "node /b/server/index.js"},
		"a relative path":  {config(`"command":"node","args":["server/index.js"]`, ""), nil, "node /b/server/index.js"},
		"a program in it":  {config(`"command":"server/index.js"`, ""), nil, "/b/server/index.js"},
		"separators":       {config(`"command":"node","args":["${__dirname}${/}server${pathSeparator}index.js"]`, ""), nil, "node /b/server/index.js"},
		"a platform":       {config(`"command":"node","args":["a"],"env":{"A":"1"},"platform_overrides":{"linux":{"command":"node-linux","env":{"B":"2"}},"win32":{"command":"x"}}`, ""), nil, "node-linux a B=2"},
		"many":             {config(`"command":"node","args":["x","${user_config.dirs}"]`, dirs), imported.Values{"dirs": {"/p", "/q"}}, "node x /p /q"},
		"defaults":         {config(`"command":"node","args":["${user_config.dirs}"]`, dirs), nil, "node /home/me/a /home/me/Documents"},
		"many in a text":   {config(`"command":"node","args":["--d=${user_config.dirs}"]`, dirs), nil, "!several values"},
		"many in one":      {config(`"command":"node","env":{"D":"${user_config.dirs}"}`, dirs), nil, "!give one"},
		"one of many":      {config(`"command":"node","env":{"D":"${user_config.dirs}"}`, dirs), imported.Values{"dirs": {"/p"}}, "node D=/p"},
		"a secret":         {config(`"command":"node","env":{"K":"${user_config.key}"}`, key), imported.Values{"key": {"env:NOTES"}}, "node !K=${NOTES}"},
		"in a text":        {config(`"command":"node","env":{"K":"Bearer ${user_config.key}"}`, key), imported.Values{"key": {"env:NOTES"}}, "node !K=Bearer ${NOTES}"},
		"a file in a text": {config(`"command":"node","env":{"K":"Bearer ${user_config.key}"}`, key), imported.Values{"key": {"file:/k"}}, "!cannot refer to a file"},
		"no secret":        {config(`"command":"node","env":{"K":"${user_config.key}"}`, key), nil, "node"},
		"as it is":         {config(`"command":"node","env":{"K":"${user_config.key}"}`, key), imported.Values{"key": {"hunter2"}}, "!no reference"},
		"as an argument":   {config(`"command":"node","args":["--key","${user_config.key}"]`, key), imported.Values{"key": {"env:NOTES"}}, "!the secret key as an argument"},
		"nor given":        {config(`"command":"node","args":["-v","--key","${user_config.key}"]`, key), nil, "node -v"},
		"needed as one":    {config(`"command":"node","args":["${user_config.key}"]`, strings.Replace(key, `"sensitive"`, `"required":true,"sensitive"`, 1)), nil, "!wants the secret key"},
		"a number":         {config(`"command":"node","args":["--level=${user_config.level}"]`, level), imported.Values{"level": {"5"}}, "node --level=5"},
		"too small":        {config(`"command":"node","args":["--level=${user_config.level}"]`, level), imported.Values{"level": {"0"}}, "!too small; fix: write 1 or more"},
		"too large":        {config(`"command":"node","args":["--level=${user_config.level}"]`, level), imported.Values{"level": {"9.5"}}, "!too large; fix: write 9 or less"},
		"true or false":    {config(`"command":"node","args":["--quiet=${user_config.quiet}"]`, bool0), nil, "node --quiet=false"},
		"neither":          {config(`"command":"node","args":["--quiet=${user_config.quiet}"]`, bool0), imported.Values{"quiet": {"yes"}}, "!true or false"},
		"an option twice":  {config(`"command":"node","args":["${user_config.name}-${user_config.name}"]`, ask), imported.Values{"name": {"n"}}, "node n-n"},
		"no such option":   {config(`"command":"node","args":["${user_config.other}"]`, ask), nil, "!user_config.other, which it does not have"},
		"no such value":    {config(`"command":"node"`, ask), imported.Values{"other": {"n"}}, "!there is no variable other"},
		"a reference":      {config(`"command":"node","args":["${user_config.name}"]`, ask), imported.Values{"name": {"env:HOME"}}, "!nothing reads references"},
		"reads a secret":   {config(`"command":"node","env":{"A":"${AWS_SECRET_ACCESS_KEY}"}`, ""), nil, "!the variable ${AWS_SECRET_ACCESS_KEY}, which is not known"},
		"reads a file":     {config(`"command":"node","env":{"A":"file:/etc/shadow"}`, ""), nil, "!would read secrets"},
		"reads by parts":   {config(`"command":"node","env":{"A":"env:${user_config.name}"}`, ask), imported.Values{"name": {"HOME"}}, "!would read secrets"},
		"reads in pieces":  {config(`"command":"node","env":{"A":"$${user_config.name}"}`, ask), imported.Values{"name": {"{HOME}"}}, "!would read secrets"},
		"uv":               {strings.Replace(manifest(`{"type":"uv","entry_point":"server/index.js"}`, ""), `"0.3"`, `"0.4"`, 1), nil, "uv run --directory /b server/index.js"},
		"another platform": {manifest("", `,"compatibility":{"platforms":["darwin","win32"]}`), nil, "!is for darwin, win32, and not for linux"},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := read(archive(t, entry{"manifest.json", test.json, 0}, index), "")
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			plan, err := b.Plan("/b", "", Machine{"linux", "/home/me", "/"})
			if err == nil {
				var s *imported.Server
				if s, err = plan.Server(test.given); err == nil {
					got = told(s)
				}
			}
			if err != nil {
				got = "!" + err.Error()
			}
			if part, fails := strings.CutPrefix(test.want, "!"); got != test.want && (!fails || got == "" || got[0] != '!' || !strings.Contains(got, part)) {
				t.Errorf("%s; want %s", got, test.want)
			}
			if strings.Contains(got, "hunter2") || strings.Contains(got, "changeme") {
				t.Errorf("a secret is shown: %s", got)
			}
		})
	}
}

// A bundle with uv.lock is started from it.
func TestLocked(t *testing.T) {
	text := strings.Replace(manifest(`{"type":"uv","entry_point":"server/index.js"}`, ""), `"0.3"`, `"0.4"`, 1)
	b, err := read(archive(t, entry{"manifest.json", text, 0}, index, entry{"uv.lock", "", 0}), "")
	if err != nil {
		t.Fatal(err)
	}
	plan, err := b.Plan("/b", "", Machine{Platform: "linux"})
	if err != nil {
		t.Fatal(err)
	}
	if s, err := plan.Server(nil); err != nil || told(s) != "uv run --frozen --directory /b server/index.js" || len(plan.Notes) != 0 {
		t.Errorf("%v %v %v", s, err, plan.Notes)
	}
}

// Whatever a manifest says, no secret is read that was not given, and arguments refer to nothing.
func FuzzManifest(f *testing.F) {
	f.Add([]byte(manifest("", "")), "x")
	f.Add([]byte(manifest(`{"type":"node","entry_point":"server/index.js","mcp_config":{"command":"node","args":["${user_config.a}"],"env":{"A":"x${user_config.b}"},"platform_overrides":{"linux":{"env":{"B":"${HOME}"}}}}}`,
		`,"user_config":{"a":{"type":"directory","title":"t","description":"d","multiple":true,"default":["${HOME}"]},"b":{"type":"string","title":"t","description":"d","sensitive":true}}`)), "y")
	f.Fuzz(func(t *testing.T, data []byte, text string) {
		m, err := ParseManifest(data)
		if err != nil {
			return
		}
		plan, err := (&Bundle{Manifest: m, SHA256: strings.Repeat("0", 64)}).Plan("/b", "", Machine{"linux", "/h", "/"})
		if err != nil {
			return
		}
		given := imported.Values{}
		for _, v := range plan.Variables {
			given[v.Name] = []string{text}
			if v.Secret {
				given[v.Name] = []string{"env:GIVEN"}
			}
		}
		for _, values := range []imported.Values{nil, given} {
			s, err := plan.Server(values)
			if err != nil {
				continue
			}
			for _, word := range s.Command {
				if len(word.Variables()) > 0 {
					t.Errorf("an argument refers: %s", told(s))
				}
			}
			for _, one := range s.Env {
				whole := ""
				for _, part := range one.Value {
					if whole += part.Literal; part.Variable != "" && part.Variable != "GIVEN" && !imported.Refers(text) {
						t.Errorf("%s refers to what nobody has given", one.Name)
					}
				}
				if imported.Reads(whole) && !imported.Refers(text) {
					t.Errorf("%s would be read: %q", one.Name, whole)
				}
			}
		}
	})
}

// Whatever an archive holds, it is unpacked below its directory, or not at all.
func FuzzBundle(f *testing.F) {
	f.Add(archive(f, entry{"manifest.json", manifest("", ""), 0}, index))
	f.Add(archive(f, entry{"manifest.json", manifest("", ""), 0}, index, entry{"../x", "y", 0}))
	f.Add(archive(f, entry{"manifest.json", manifest("", ""), 0}, index, entry{"x", "/etc", fs.ModeSymlink | 0o777}, entry{"x/y", "z", 0}))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := read(data, "")
		if err != nil {
			return
		}
		root := t.TempDir()
		dir, err := b.Unpack(filepath.Join(root, "bundles"))
		all, _ := os.ReadDir(root)
		below, _ := os.ReadDir(filepath.Join(root, "bundles"))
		if len(all) != 1 || err == nil && len(below) != 1 || err != nil && len(below) != 0 {
			t.Errorf("%v: %v %v %v", err, dir, all, below)
		}
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() && !d.Type().IsRegular() {
				t.Errorf("%s: %v %v", path, d, err)
			}
			return nil
		})
	})
}
