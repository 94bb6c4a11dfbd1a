package services

import (
	"errors"
	"fmt"
	"slices"

	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"dragoman/adapters/grpc/channel"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Bounds on what server reflection may say.
const (
	maxServices = 1000
	maxFiles    = 2000
	maxSet      = 64 << 20 // bytes of all files
)

// The services of server reflection. They have the same messages under two names; servers of before 2023 have the second only.
const (
	reflectionV1      = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
	reflectionV1alpha = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
)

// reflected is what a server has said of itself so far.
type reflected struct {
	set     descriptorpb.FileDescriptorSet
	size    int
	have    map[string]bool // files
	asked   map[string]bool // files
	all     []string        // services of the server
	wanted  []string        // of these, those to ask for
	missing []string        // files that are imported
}

// reflect asks the server for the descriptors of the chosen services, and continues with their tools.
func (c *call) reflect(method string, then func(of *tools) error) error {
	of := &channel.Method{Name: method, ServerStreams: true, ClientStreams: true, Message: func() proto.Message { return new(reflectionpb.ServerReflectionResponse) },
		Last: func(proto.Message) bool { return false }}
	c.found = &reflected{have: make(map[string]bool), asked: make(map[string]bool)}
	list := &reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}
	return c.step(of, list, func(in proto.Message, err error) (*wire.Message, error) {
		switch {
		case proxy.IsFault(err, proxy.MethodNotFound) && method == reflectionV1:
			return nil, c.reflect(reflectionV1alpha, then)
		case proxy.IsFault(err, proxy.MethodNotFound):
			return nil, proxy.Errf(proxy.MethodNotFound, "the gRPC server has no reflection, by which its methods would be found; fix: set upstreams.NAME.grpc.descriptors")
		case err != nil:
			return nil, err
		}
		if err := c.found.hear(in.(*reflectionpb.ServerReflectionResponse), c.u.services.MatchString); err != nil {
			return nil, err
		}
		next := c.found.next()
		if next != nil {
			return nil, c.stream.Send(next)
		}
		if len(c.found.set.GetFile()) == 0 {
			return nil, unusable(fmt.Errorf("%w; it has %s", errNone, listed(c.found.all)))
		}
		// A file of a service of the server may also have services that the server does not offer.
		all, err := c.u.toolsOf(&c.found.set, c.found.offers)
		if c.found = nil; err != nil {
			return nil, unusable(err)
		}
		c.u.learned(all)
		return nil, then(all)
	})
}

// offers reports whether the server has named a service.
func (r *reflected) offers(service string) bool { return slices.Contains(r.all, service) }

// hear takes an answer of the server.
func (r *reflected) hear(m *reflectionpb.ServerReflectionResponse, wanted func(service string) bool) error {
	switch of := m.GetMessageResponse().(type) {
	case *reflectionpb.ServerReflectionResponse_ListServicesResponse:
		all := of.ListServicesResponse.GetService()
		if len(all) > maxServices {
			return proxy.Errf(proxy.BadAnswer, "the gRPC server has more than %d services", maxServices)
		}
		for _, s := range all {
			r.all = append(r.all, s.GetName())
			if wanted(s.GetName()) {
				r.wanted = append(r.wanted, s.GetName())
			}
		}
		return nil
	case *reflectionpb.ServerReflectionResponse_FileDescriptorResponse:
		for _, raw := range of.FileDescriptorResponse.GetFileDescriptorProto() {
			if err := r.add(raw); err != nil {
				return proxy.Errf(proxy.BadAnswer, "server reflection: %w", err)
			}
		}
		return nil
	case *reflectionpb.ServerReflectionResponse_ErrorResponse: // of a file or service: what needs it cannot be linked, which the error says then
		return nil
	}
	return proxy.Errf(proxy.BadAnswer, "server reflection has answered with something unknown")
}

// add adds a file.
func (r *reflected) add(raw []byte) error {
	file := new(descriptorpb.FileDescriptorProto)
	if err := proto.Unmarshal(raw, file); err != nil {
		return errors.New("a file descriptor is broken")
	}
	if r.have[file.GetName()] {
		return nil
	}
	if r.size += len(raw); r.size > maxSet || len(r.set.GetFile()) >= maxFiles {
		return errors.New("the file descriptors are too many")
	}
	r.have[file.GetName()] = true
	r.set.File = append(r.set.File, file)
	r.missing = append(r.missing, file.GetDependency()...)
	return nil
}

// next returns the next question; nil: everything is known.
func (r *reflected) next() *reflectionpb.ServerReflectionRequest {
	if len(r.wanted) > 0 {
		service := r.wanted[0]
		r.wanted = r.wanted[1:]
		return &reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: service}}
	}
	for len(r.missing) > 0 {
		file := r.missing[0]
		if r.missing = r.missing[1:]; !r.have[file] && !r.asked[file] {
			r.asked[file] = true // whatever the answer is
			return &reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_FileByFilename{FileByFilename: file}}
		}
	}
	return nil
}
