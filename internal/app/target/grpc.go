package target

import (
	"fmt"
	"net/netip"
	"os"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"dragoman/adapters/era/input"
	"dragoman/adapters/events"
	"dragoman/adapters/grpc/channel"
	"dragoman/adapters/grpc/provider"
	"dragoman/adapters/grpc/services"
	"dragoman/adapters/httpd/httpclient"
	"dragoman/internal/config"
	"dragoman/internal/config/field"
	"dragoman/proxy/wire"
)

// grpcSettings are what a gRPC service is made of besides its own configuration.
type grpcSettings struct {
	limits      config.LimitsConfig
	questions   input.Options
	credentials httpclient.Credentials
	refuse      func(to netip.AddrPort) error
	note        func(level, msg string, err error)
	changed     func(m *wire.Message)
	events      *events.Emitter
}

// openChannel returns the connections to a gRPC service.
func openChannel(up *config.Upstream, by *grpcSettings) (*channel.Channel, error) {
	target, secure, _ := up.GRPC()
	headers, forward := metadataOf(up)
	return channel.New(channel.Options{Target: target, TLS: secure, CAFile: up.CAFile, CertFile: up.CertFile, KeyFile: up.KeyFile, Headers: headers, Forward: forward,
		Credentials: by.credentials, NoProxy: up.Proxy == field.Off, Refuse: by.refuse, UserAgent: "dragoman", ConnectTimeout: up.ConnectTimeout,
		KeepaliveTime: up.Keepalive, KeepaliveTimeout: up.KeepaliveTimeout, MaxMessage: by.limits.ResponseBody, MaxMetadata: by.limits.Header})
}

// openProvider returns the provider at the end of a channel.
func openProvider(up *config.Upstream, c *channel.Channel, by *grpcSettings) *provider.Upstream {
	q := by.questions
	return provider.New(c, provider.Options{Name: up.Name, MaxResult: by.limits.ResponseBody, Note: by.note, Changed: by.changed, Event: by.events.Emit,
		Asking: provider.Asking{TTL: q.TTL, Settle: q.Settle, Most: q.MaxParked, MostOfPrincipal: q.MaxPerPrincipal, Rounds: q.Rounds}})
}

// maxDescriptors bounds a file with descriptors, in bytes.
const maxDescriptors = 64 << 20

// openServices returns the gRPC services at the end of a channel, whose methods are tools.
func openServices(up *config.Upstream, c *channel.Channel, by *grpcSettings) (*services.Upstream, error) {
	opt := services.Options{Name: up.Name, Methods: up.Methods, MaxResult: by.limits.ResponseBody, Note: by.note}
	if up.Descriptors != "" {
		raw, err := os.ReadFile(up.Descriptors)
		if err != nil {
			return nil, fmt.Errorf("grpc.descriptors: %w", err)
		}
		if opt.Set = new(descriptorpb.FileDescriptorSet); len(raw) > maxDescriptors || proto.Unmarshal(raw, opt.Set) != nil {
			return nil, fmt.Errorf("grpc.descriptors: %s is no FileDescriptorSet of at most 64 MiB; fix: protoc --include_imports --descriptor_set_out=FILE", up.Descriptors)
		}
	}
	s, err := services.New(c, opt)
	if err != nil {
		return nil, fmt.Errorf("grpc: %w", err)
	}
	return s, nil
}

// metadataOf returns the static headers of an upstream, and those that it is passed on of clients.
func metadataOf(up *config.Upstream) ([]httpclient.Header, []httpclient.Forward) {
	headers := make([]httpclient.Header, 0, len(up.Headers))
	for _, x := range up.Headers {
		headers = append(headers, httpclient.Header{Name: x.Name, Value: x.Value.Reveal()})
	}
	forward := make([]httpclient.Forward, 0, len(up.Forward))
	for _, x := range up.Forward {
		forward = append(forward, httpclient.Forward{From: strings.ToLower(x.From), To: x.To})
	}
	return headers, forward
}
