// Module writes the source as a Go module of another name, in the layout of a module proxy, so that `go install NAME@VERSION` installs it:
//
//	module -name example.com/dragoman -version v1.2.3 -time 1700000000 ROOT DIRECTORY
//
// ROOT is the root of the module. DIRECTORY/NAME/@v gets VERSION.zip, VERSION.mod, VERSION.info and list. The module has what its main package
// needs on any system: neither tests nor other programs. The same source makes the same files.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

func main() {
	name := flag.String("name", "", "path of the module")
	version := flag.String("version", "", "version of the module, v1.2.3")
	seconds := flag.Int64("time", 0, "of the version, seconds since 1970")
	flag.Parse()
	if flag.NArg() != 2 {
		fmt.Fprintln(os.Stderr, "usage: module -name PATH -version v1.2.3 -time SECONDS ROOT DIRECTORY")
		os.Exit(2)
	}
	err := publish(flag.Arg(0), flag.Arg(1), module.Version{Path: *name, Version: *version}, time.Unix(*seconds, 0).UTC())
	if err != nil {
		fmt.Fprintln(os.Stderr, "module:", err)
		os.Exit(1)
	}
}

// publish writes the four files of a version.
func publish(root, dir string, m module.Version, when time.Time) error {
	if err := module.Check(m.Path, m.Version); err != nil {
		return fmt.Errorf("%w; fix: set MODULE in deploy/names.sh to a path such as example.com/dragoman, and VERSION to v1.2.3", err)
	}
	root, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	mod, old, err := renamed(root, m.Path)
	if err != nil {
		return err
	}
	files, err := source(root, old, m.Path)
	if err != nil {
		return err
	}
	files = append(files, &file{"go.mod", mod})
	slices.SortFunc(files, func(a, b *file) int { return strings.Compare(a.path, b.path) })
	packed := []zip.File{}
	for _, f := range files {
		packed = append(packed, f)
	}
	var archive bytes.Buffer
	if err := zip.Create(&archive, m, packed); err != nil {
		return err
	}
	info, err := json.Marshal(struct {
		Version string
		Time    time.Time
	}{m.Version, when})
	if err != nil {
		return err
	}
	escaped, err := module.EscapePath(m.Path)
	if err != nil {
		return err
	}
	to := filepath.Join(dir, filepath.FromSlash(escaped), "@v")
	err = os.MkdirAll(to, 0o755) //nolint:gosec // everybody reads it
	for suffix, data := range map[string][]byte{m.Version + ".zip": archive.Bytes(), m.Version + ".mod": mod, m.Version + ".info": info, "list": []byte(m.Version + "\n")} {
		err = errors.Join(err, os.WriteFile(filepath.Join(to, suffix), data, 0o644)) //nolint:gosec // everybody reads it
	}
	return err
}

// renamed returns the go.mod of the module under its new name, and its old name.
func renamed(root, name string) (mod []byte, old string, err error) {
	path := filepath.Join(root, "go.mod")
	data, err := os.ReadFile(path) //nolint:gosec // the source
	if err != nil {
		return nil, "", err
	}
	f, err := modfile.Parse(path, data, nil)
	if err != nil {
		return nil, "", err
	}
	if len(f.Replace)+len(f.Exclude) > 0 {
		return nil, "", errors.New("go install refuses a module with replace or exclude; fix: remove them from go.mod")
	}
	old = f.Module.Mod.Path
	if err := f.AddModuleStmt(name); err != nil {
		return nil, "", err
	}
	mod, err = f.Format()
	return mod, old, err
}

// systems are those whose packages are looked at. Each package is taken with its files for all systems.
var systems = []string{"linux", "darwin", "windows", "freebsd"}

// listed is what `go list` says of a package.
type listed struct {
	Dir                                                                                                 string
	Module                                                                                              *struct{ Main bool }
	GoFiles, CgoFiles, IgnoredGoFiles, CFiles, HFiles, SFiles, SysoFiles, IgnoredOtherFiles, EmbedFiles []string
}

// source returns the files that the main package is built from, with the imports renamed.
func source(root, old, name string) (files []*file, err error) {
	paths := []string{"go.sum", "LICENSE", "README.md"}
	for _, system := range systems {
		c := exec.Command("go", "list", "-deps", "-json=Dir,Module,GoFiles,CgoFiles,IgnoredGoFiles,CFiles,HFiles,SFiles,SysoFiles,IgnoredOtherFiles,EmbedFiles", ".")
		c.Dir, c.Stderr = root, os.Stderr
		c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH=amd64", "GOFLAGS=", "GOWORK=off")
		out, err := c.Output()
		if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		for d := json.NewDecoder(bytes.NewReader(out)); ; {
			var p listed
			if err := d.Decode(&p); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, err
			}
			if p.Module == nil || !p.Module.Main {
				continue
			}
			for _, f := range slices.Concat(p.GoFiles, p.CgoFiles, p.IgnoredGoFiles, p.CFiles, p.HFiles, p.SFiles, p.SysoFiles, p.IgnoredOtherFiles, p.EmbedFiles) {
				path, err := filepath.Rel(root, filepath.Join(p.Dir, f))
				if err != nil {
					return nil, err
				}
				if !strings.HasSuffix(path, "_test.go") {
					paths = append(paths, filepath.ToSlash(path))
				}
			}
		}
	}
	slices.Sort(paths)
	for _, path := range slices.Compact(paths) {
		data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path))) //nolint:gosec // the source
		if err == nil && strings.HasSuffix(path, ".go") {
			data, err = imports(data, old, name)
		}
		if err != nil {
			return nil, err
		}
		files = append(files, &file{path, data})
	}
	return files, nil
}

// imports replaces the module old by name in the imports of a Go file. Nothing else of the file changes.
func imports(src []byte, old, name string) ([]byte, error) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, "", src, parser.ImportsOnly)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	done := 0
	for _, spec := range f.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		rest, ours := strings.CutPrefix(path, old)
		if !ours || rest != "" && rest[0] != '/' {
			continue
		}
		out.Write(src[done:set.Position(spec.Path.Pos()).Offset])
		out.WriteString(strconv.Quote(name + rest))
		done = set.Position(spec.Path.End()).Offset
	}
	out.Write(src[done:])
	return out.Bytes(), nil
}

// file is a file of the module as golang.org/x/mod/zip reads it.
type file struct {
	path string
	data []byte
}

func (f *file) Path() string                 { return f.path }
func (f *file) Lstat() (fs.FileInfo, error)  { return stat{f}, nil }
func (f *file) Open() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(f.data)), nil }

// stat is a file's information: an ordinary one without a time.
type stat struct{ of *file }

func (s stat) Name() string       { return s.of.path[strings.LastIndex(s.of.path, "/")+1:] }
func (s stat) Size() int64        { return int64(len(s.of.data)) }
func (s stat) Mode() fs.FileMode  { return 0o644 }
func (s stat) ModTime() time.Time { return time.Time{} }
func (s stat) IsDir() bool        { return false }
func (s stat) Sys() any           { return nil }
