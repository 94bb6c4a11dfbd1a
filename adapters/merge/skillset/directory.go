package skillset

import (
	"slices"
	"strings"

	"context"
	"dragoman/adapters/merge/names"
	"dragoman/adapters/merge/view"
	"dragoman/adapters/skills"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// cutServer returns the server that the URI of a skill names, and what follows it.
func cutServer(uri string) (server, rest string, ok bool) {
	server, plain, ok := names.SplitSkillURI(uri)
	if !ok {
		return "", "", false
	}
	return server, plain[len("skill://"):], true
}

// cutFolder returns the path of a URI below a folder; empty: it is the folder itself.
func cutFolder(uri, folder string) (path string, ok bool) {
	rest, ok := strings.CutPrefix(uri, folder)
	if !ok || rest != "" && rest[0] != '/' {
		return "", false
	}
	return strings.TrimPrefix(rest, "/"), rest != "/"
}

// directory gathers what is directly in a directory.
type directory struct {
	at    string // its URI
	names []string
	items map[string][]byte
}

// directoryType is the media type of directories (SEP-2640, Directory Resources).
const directoryType = "inode/directory"

// add adds the file of a URI, if it is in the directory or below it. mime may be empty.
func (d *directory) add(uri, mime string) {
	path, ok := cutFolder(uri, d.at)
	if !ok || path == "" {
		return
	}
	name, _, below := strings.Cut(path, "/")
	if d.items[name] != nil {
		return
	}
	if below {
		mime = directoryType
	}
	item := []wire.Change{{Key: "uri", Value: wire.AppendText(nil, d.at+"/"+name)}, {Key: "name", Value: wire.AppendText(nil, name)}}
	if mime != "" {
		item = append(item, wire.Change{Key: "mimeType", Value: wire.AppendText(nil, mime)})
	}
	if d.items == nil {
		d.items = map[string][]byte{}
	}
	d.items[name] = wire.Object(item)
	d.names = append(d.names, name)
}

// json returns the children as an array, by their names.
func (d *directory) json() []byte {
	slices.Sort(d.names)
	all := []byte{'['}
	for _, name := range d.names {
		all = wire.AppendItem(all, d.items[name])
	}
	return append(all, ']')
}

// maxUp bounds the folders above a directory that are tried for the skill that it belongs to.
const maxUp = 16

// Directory answers resources/directory/read at a member that serves skills and does not list directories, from the list of files of the
// skill: that of the nearest folder above which is a skill. at is the member's own URI.
func (s *Set) Directory(ex *proxy.Exchange, v *view.View, server, at string) (proxy.Replies, error) {
	ctx, cancel := context.WithTimeout(ex, askTime)
	defer cancel()
	asked := string(ex.Msg.Text(ex.Msg.URI))
	folder := at
	for range maxUp {
		if strings.HasSuffix(folder, "/") || !strings.Contains(folder, "://") {
			break
		}
		m, err := s.Ask(ctx, ex, server, GetMethod, []wire.Change{{Key: "uri", Value: wire.AppendText(nil, folder+"/"+skills.Main)}})
		if err != nil && !proxy.IsFault(err, proxy.InvalidParams) {
			return nil, err
		}
		if err == nil && m.Kind == wire.Result {
			d := directory{at: at}
			for _, one := range wire.Items(m.Raw, wire.Path(m.Raw, m.Result, "skill", "resources")) {
				uri := string(wire.Get(m.Raw, one, "uri").Text(m.Raw))
				d.add(uri, mimeOf(uri))
			}
			if len(d.names) == 0 {
				break // a skill whose files nobody lists, or a file
			}
			result := proxy.ResultMessage([]byte("0"), wire.Object([]wire.Change{{Key: "resources", Value: d.json()}}))
			v.SkillURIs(&result, result.Result, server)
			if _, err := result.Settle(nil); err != nil {
				return nil, proxy.Errf(proxy.Internal, "an answer made here is no message: %w", err)
			}
			return s.answer(ex, []wire.Change{{Key: "resources", Value: wire.Get(result.Raw, result.Result, "resources").Of(result.Raw)}}), nil
		}
		up := strings.LastIndexByte(folder, '/')
		if up <= 0 {
			break
		}
		folder = folder[:up]
	}
	return nil, noDirectory(asked)
}

// mimeOf returns the media type of a file of which nothing but its URI is known; empty if that tells nothing.
func mimeOf(uri string) string {
	if strings.HasSuffix(uri, ".md") {
		return "text/markdown"
	}
	return ""
}
