package main

import (
	"context"
	"fmt"
	"os/exec"

	"dragoman/bench/load/drive"
	"dragoman/bench/measure"
)

// grpc measures calls at gRPC servers: through Dragoman, through transcoders from HTTP and JSON, and by ghz without a hop.
func (b *suite) grpc(ctx context.Context, t *targets) error {
	upstream := func(lines string) func(ctx context.Context, name string, to *target) (target, error) {
		return func(ctx context.Context, name string, to *target) (target, error) {
			return t.configured(ctx, name, false, fmt.Sprintf("[upstreams.default]\nurl = \"grpc://%s\"\n%s", to.addr, lines))
		}
	}
	transcoder := func(role string) func(ctx context.Context, name string, to *target) (target, error) {
		return func(ctx context.Context, name string, to *target) (target, error) {
			found, err := t.lab(ctx, name, role, "--to", to.addr)
			found.paths, found.object, found.header = []string{sayMethod}, true, "Connect-Protocol-Version: 1\r\n" // for Vanguard
			return found, err
		}
	}
	for name, start := range map[string]func(ctx context.Context, name string, to *target) (target, error){
		cellProvider: upstream(""), cellService: upstream("grpc.methods = [\"bench.echo.v1.Echo/*\"]\n"), cellVanguard: transcoder("vanguard"), cellGateway: transcoder("gateway"),
	} {
		t.special[name] = func(ctx context.Context) (target, error) {
			server, err := t.get(ctx, grpcServer)
			if err != nil {
				return target{}, err
			}
			found, err := start(ctx, name, &server)
			switch found.behind = server.process; name {
			case cellProvider:
				found.tool = providerTool
			case cellService:
				found.tool, found.object = "Echo.Say", true
			}
			return found, err
		}
	}
	t.special[grpcServer] = func(ctx context.Context) (target, error) { return t.lab(ctx, grpcServer, "server") }
	cells := append(cellsOf(allCells(), baseline),
		cell{name: cellProvider, what: "dragoman, modern to a gRPC provider", target: cellProvider, face: drive.ModernHTTP},
		cell{name: cellService, what: "dragoman, modern to a gRPC service", target: cellService, face: drive.ModernHTTP},
		cell{name: cellVanguard, what: "Vanguard, JSON to the gRPC service", target: cellVanguard, face: drive.Plain},
		cell{name: cellGateway, what: "grpc-gateway, JSON to the gRPC service", target: cellGateway, face: drive.Plain},
		cell{name: cellGhzProvider, what: "ghz, straight to the provider", target: grpcServer, method: callToolMethod},
		cell{name: cellGhzService, what: "ghz, straight to the service", target: grpcServer, method: sayMethod})
	for _, size := range b.sizes {
		if b.interleave(ctx, t, b.report.addRows(secGRPC, cells, size, b.connections)); ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// lab starts one of the processes of bench/lab/grpc.
func (t *targets) lab(ctx context.Context, name string, args ...string) (target, error) {
	program, err := exec.LookPath(t.settings.grpc)
	if err != nil {
		return target{}, fmt.Errorf("bench/lab/grpc is %w", errAbsent)
	}
	p, err := measure.Start(ctx, measure.Command{Name: name, Argv: append([]string{program}, args...), Log: t.log(name), Announces: true})
	if err != nil {
		return target{}, err
	}
	return target{addr: p.First, process: p}, nil
}
