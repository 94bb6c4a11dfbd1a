package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"dragoman/bench/load/drive"
	"dragoman/bench/measure"
	"dragoman/proxy/wire"
)

// The cells of the section grpc, and the processes that only it has.
const (
	cellProvider    = "provider"     // Dragoman in front of a provider
	cellService     = "service"      // Dragoman in front of any service
	cellVanguard    = "vanguard"     // a transcoder in front of that service
	cellGateway     = "grpc-gateway" // another
	cellGhzProvider = "ghz-provider" // gRPC without a hop
	cellGhzService  = "ghz-service"  // the same
	grpcServer      = "grpc-server"  // has both, by reflection too
	sayMethod       = "/bench.echo.v1.Echo/Say"
	callToolMethod  = "/mcp.provider.v1.Provider/CallTool"
	providerTool    = "echo.v1" // names of a provider's tools have a version
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

// judgeGRPC judges calls at gRPC servers of one size against the transcoder that takes less CPU time. What ghz reaches without a hop stands beside.
func (r *report) judgeGRPC(size int) {
	better := r.row(secGRPC, cellVanguard, size)
	if other := r.row(secGRPC, cellGateway, size); better == nil || other != nil && other.CPU.Median < better.CPU.Median {
		better = other
	}
	for _, one := range []struct{ name, what, ghz string }{{cellProvider, "a gRPC provider", cellGhzProvider}, {cellService, "a gRPC service", cellGhzService}} {
		ours := r.row(secGRPC, one.name, size)
		if better == nil || ours == nil {
			continue
		}
		r.compare(secGRPC, fmt.Sprintf("HTTP to %s, %d bytes, against %s", one.what, size, better.Name), leastGRPC, better, ours, ofCPU)
		if direct := r.row(secGRPC, one.ghz, size); direct != nil {
			r.Targets[len(r.Targets)-1].Beside += "; of ghz's without a hop " + ratio(measure.Ratios(ours.values(perSecond), direct.values(perSecond)))
		}
	}
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

// ghzOnce measures a round by ghz, which sends the same request over and over and checks the status of answers only.
func (b *suite) ghzOnce(ctx context.Context, under *target, row *row) (round, error) {
	program, err := exec.LookPath(b.settings.ghz)
	if err != nil {
		return round{}, fmt.Errorf("ghz is %w", errAbsent)
	}
	data := filepath.Join(b.dir, fmt.Sprintf("%s-%d.json", row.Name, row.Size))
	if len(row.Rounds) == 0 {
		if err := os.WriteFile(data, ghzData(row), 0o600); err != nil {
			return round{}, fmt.Errorf("bench: %w", err)
		}
	}
	ghz := func(d time.Duration) (*ghzReport, measure.CPU, error) {
		c := exec.CommandContext(ctx, program, "--insecure", "--call", strings.TrimPrefix(row.cell.method, "/"), "--data-file", data, "--format", "json",
			"--concurrency", fmt.Sprint(row.Connections), "--connections", fmt.Sprint(row.Connections), "--duration", d.String(), "--duration-stop", "wait", under.addr)
		c.Env = measure.Environment()
		out, err := c.Output()
		if err != nil {
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				err = fmt.Errorf("%w: %s", err, exit.Stderr)
			}
			return nil, measure.CPU{}, fmt.Errorf("bench: ghz: %w", err)
		}
		r := new(ghzReport)
		if err := json.Unmarshal(out, r); err != nil {
			return nil, measure.CPU{}, fmt.Errorf("bench: ghz: %w", err)
		}
		return r, measure.CPU{Own: c.ProcessState.UserTime() + c.ProcessState.SystemTime()}, nil
	}
	if b.warmup > 0 {
		if _, _, err := ghz(b.warmup); err != nil {
			return round{}, err
		}
	}
	from, err := measure.ReadCPU(under.process.PID())
	if err != nil {
		return round{}, err
	}
	r, load, err := ghz(b.duration)
	if err != nil {
		return round{}, err
	}
	to, err := measure.ReadCPU(under.process.PID())
	if err != nil {
		return round{}, err
	}
	if row.FirstError == "" {
		row.FirstError = wire.Visible(r.first())
	}
	rss, err := measure.ReadRSS(under.process.PID())
	return r.round(to.Sub(from).Own, load.Own, rss), err
}

// ghzReport is the part of ghz's report that is read. Times are in nanoseconds.
type ghzReport struct {
	Rate     float64           `json:"rps"`
	Slowest  float64           `json:"slowest"`
	Statuses map[string]uint64 `json:"statusCodeDistribution"`
	Errors   map[string]uint64 `json:"errorDistribution"`
	Latency  []struct {
		Percentage int     `json:"percentage"`
		Latency    float64 `json:"latency"`
	} `json:"latencyDistribution"`
}

func (r *ghzReport) round(server, load time.Duration, rss int64) round {
	out := round{Requests: r.Statuses["OK"], PerSecond: r.Rate, Max: r.Slowest / 1000, RSS: float64(rss)}
	for _, n := range r.Errors {
		out.Errors += n
	}
	calls := float64(max(out.Requests, 1))
	out.CPU, out.Load = measure.Micro(server)/calls, measure.Micro(load)/calls
	for _, l := range r.Latency {
		switch l.Percentage {
		case 50:
			out.P50 = l.Latency / 1000
		case 90:
			out.P90 = l.Latency / 1000
		case 99:
			out.P99 = l.Latency / 1000
		}
	}
	return out
}

// first describes the errors; empty if there were none.
func (r *ghzReport) first() string { return strings.Join(slices.Sorted(maps.Keys(r.Errors)), "; ") }

// ghzData returns the request of a row as JSON: what the other cells' clients send, with one number.
func ghzData(row *row) []byte {
	call := drive.EchoCall(drive.Plain, row.Size, row.Size, false)
	arguments := strings.ReplaceAll(call.Params, drive.Number, strings.Repeat("0", 10))
	if row.cell.method == sayMethod {
		return []byte(arguments)
	}
	data, _ := json.Marshal(map[string]string{"name": providerTool, "arguments": arguments}) // texts cannot fail
	return data
}
