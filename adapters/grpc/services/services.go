// Package services makes an MCP server of any gRPC service: each of its methods that is chosen becomes a tool. The descriptors of the methods come
// from the server itself (server reflection) or from a file.
//
// To the packages above, a service is a server of the modern era that has tools only.
package services

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"dragoman/adapters/grpc/channel"
	"dragoman/adapters/grpc/schema"
	argumentschema "dragoman/adapters/rest/schema"
	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Options configure an Upstream.
type Options struct {
	// Name is that of the upstream in the configuration, and of the server to clients.
	Name string
	// Methods are patterns of the methods that are tools, PACKAGE.SERVICE/METHOD; a * stands for any text.
	Methods []string
	// Set has the descriptors; nil: the server is asked for them.
	Set *descriptorpb.FileDescriptorSet
	// MaxResult bounds the messages that a call collects, in bytes of JSON.
	MaxResult int
	// Note writes a line to the log. It must not block.
	Note func(level, msg string, err error)
}

const (
	// freshFor is how long the descriptors of a server count before it is asked again.
	freshFor = time.Minute
	// maxTools bounds the tools of one upstream.
	maxTools = 2000
)

// Upstream presents the methods of a gRPC server as the tools of a modern MCP server. It is one link for all callers.
type Upstream struct {
	c                *channel.Channel
	opt              Options
	services, chosen *regexp.Regexp // of what Methods chooses
	info             []byte         // serverInfo, raw JSON
	schemas          *argumentschema.Cache

	mu    sync.Mutex
	tools *tools          // what was read last; nil: nothing was
	noted map[string]bool // methods that were left out, with the reason
}

// tools are the tools of a set of descriptors. They are immutable.
type tools struct {
	at     time.Time
	all    []*tool // by name
	byName map[string]*tool
}

// tool is a method as a tool.
type tool struct {
	*schema.Tool
	input  []byte // its schema
	method *channel.Method
}

// New returns the upstream of a server at the end of a channel, which the caller closes after it. The error says which pattern or descriptor cannot
// be used.
func New(c *channel.Channel, opt Options) (*Upstream, error) {
	var services, methods []string
	for _, pattern := range opt.Methods {
		service, method, named := strings.Cut(pattern, "/")
		if !named {
			method = "*"
		}
		services, methods = append(services, service), append(methods, service+"/"+method)
	}
	of, err := patterns(services)
	if err != nil {
		return nil, err
	}
	chosen, err := patterns(methods)
	if err != nil {
		return nil, err
	}
	b := wire.NewBuilder(nil)
	b.Text("name", opt.Name)
	b.Text("version", "0.0.0")
	u := &Upstream{c: c, opt: opt, services: of, chosen: chosen, info: b.Done(), schemas: argumentschema.NewCache(), noted: make(map[string]bool)}
	if opt.Set != nil {
		if u.tools, err = u.toolsOf(opt.Set, func(string) bool { return true }); err != nil {
			return nil, err
		}
	}
	return u, nil
}

// patterns returns an expression for texts that one of the patterns matches, in which a * stands for any text.
func patterns(all []string) (*regexp.Regexp, error) {
	parts := make([]string, 0, len(all))
	for _, pattern := range all {
		parts = append(parts, strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*"))
	}
	return regexp.Compile("^(?:" + strings.Join(parts, "|") + ")$")
}

// Dial implements transport.Dial, for modern exchanges.
func (u *Upstream) Dial(context.Context, transport.Sink) (transport.Link, error) { return u, nil }

// Send implements transport.Link. It drops the message: the modern era defines none to a server but requests.
func (u *Upstream) Send(context.Context, []byte) error { return nil }

// Close implements transport.Link. It does nothing: the link is that of all callers.
func (u *Upstream) Close() error { return nil }

// LastWords returns the addition to errors about a silent server.
func (u *Upstream) LastWords() string {
	return ": a gRPC service is asked for its health and its methods"
}

// known returns the tools if they are known; fresh says that they need not be read again.
func (u *Upstream) known() (of *tools, fresh bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.tools, u.tools != nil && (u.opt.Set != nil || time.Since(u.tools.at) < freshFor)
}

// learned keeps tools that were read.
func (u *Upstream) learned(of *tools) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.tools = of
}

// errNone says that the patterns choose nothing.
var errNone = errors.New("grpc.methods chooses no method of the server")

// toolsOf makes the tools of the chosen methods of the services that the server has. Methods that cannot be tools are left out, and the log says
// why, once.
func (u *Upstream) toolsOf(set *descriptorpb.FileDescriptorSet, has func(service string) bool) (*tools, error) {
	files, types, err := schema.Files(set)
	if err != nil {
		return nil, err
	}
	var methods []protoreflect.MethodDescriptor
	files.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		for _, m := range methodsOf(f) {
			if service := string(m.Parent().FullName()); has(service) && u.chosen.MatchString(service+"/"+string(m.Name())) {
				methods = append(methods, m)
			}
		}
		return len(methods) <= maxTools
	})
	switch {
	case len(methods) == 0:
		return nil, fmt.Errorf("%w; it has %s", errNone, servicesOf(files, has))
	case len(methods) > maxTools:
		return nil, fmt.Errorf("grpc.methods chooses more than %d methods; fix: choose fewer", maxTools)
	}
	slices.SortFunc(methods, func(a, b protoreflect.MethodDescriptor) int {
		return strings.Compare(string(a.FullName()), string(b.FullName()))
	})
	of := &tools{at: time.Now(), byName: make(map[string]*tool, len(methods))}
	for i, name := range schema.Names(methods) {
		one, err := schema.NewTool(methods[i], name, types)
		if err != nil {
			u.leftOut(string(methods[i].FullName()), err)
			continue
		}
		t := &tool{Tool: one, method: rawMethod(methods[i])}
		t.input = wire.Get(one.Definition, wire.Whole(one.Definition), "inputSchema").Of(one.Definition)
		of.all, of.byName[name] = append(of.all, t), t
	}
	slices.SortFunc(of.all, func(a, b *tool) int { return strings.Compare(a.Name, b.Name) })
	return of, nil
}

// leftOut writes why a method is no tool to the log, once.
func (u *Upstream) leftOut(method string, err error) {
	key := method + " " + err.Error()
	u.mu.Lock()
	again := u.noted[key]
	if len(u.noted) < maxTools {
		u.noted[key] = true
	}
	u.mu.Unlock()
	if !again {
		u.opt.Note("info", "a method of the gRPC server is left out", err)
	}
}

// methodsOf returns the methods of a file.
func methodsOf(f protoreflect.FileDescriptor) (out []protoreflect.MethodDescriptor) {
	for i := range f.Services().Len() {
		methods := f.Services().Get(i).Methods()
		for j := range methods.Len() {
			out = append(out, methods.Get(j))
		}
	}
	return out
}

// servicesOf names the services that the server has, for an error.
func servicesOf(files *protoregistry.Files, has func(service string) bool) string {
	var names []string
	files.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			if name := string(f.Services().Get(i).FullName()); has(name) {
				names = append(names, name)
			}
		}
		return true
	})
	return listed(names)
}

// listed names services, the first of them if they are many.
func listed(names []string) string {
	slices.Sort(names)
	if len(names) == 0 {
		return "no services"
	}
	const most = 20
	text := strings.Join(names[:min(len(names), most)], ", ")
	if len(names) > most {
		text += fmt.Sprintf(" and %d more", len(names)-most)
	}
	return "the services " + wire.Shown(text)
}

// unusable returns the error of descriptors that cannot be used.
func unusable(err error) error {
	if errors.Is(err, errNone) {
		return proxy.Errf(proxy.BadAnswer, "%w", err)
	}
	return proxy.Errf(proxy.BadAnswer, "the descriptors of the gRPC server cannot be used: %w", err)
}
