//go:build unix

package e2e

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	cloudevents "dragoman/adapters/events"
	"dragoman/adapters/events/loadtest"
	"dragoman/adapters/events/natstest"
	"dragoman/adapters/grpc/providerpb"
	"dragoman/adapters/grpc/providerpb/cloudeventspb"
	"dragoman/internal/testkit"
)

var (
	eventsTime = flag.Duration("events-time", 2*time.Second, "how long TestProviderLoad emits events")
	eventsRate = flag.Int("events-rate", 500, "how many events TestProviderLoad emits in a second")
)

// program is a Dragoman that is a process of its own.
type program struct {
	cmd   *exec.Cmd
	admin string
}

// startProgram starts Dragoman with a configuration, and waits until it listens.
func startProgram(t *testing.T, toml string) *program {
	t.Helper()
	logs := &testkit.LockedBuffer{}
	file := testkit.WriteFile(t, "program.toml", "listen = \"127.0.0.1:0\"\nadmin.listen = \"127.0.0.1:0\"\nlog.format = \"json\"\n"+toml)
	c := &program{cmd: testkit.Self(t, "main", "serve", "--config", file)}
	c.cmd.Stderr = logs
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if c.cmd.ProcessState == nil {
			_ = c.cmd.Process.Kill()
			_ = c.cmd.Wait()
		}
		if t.Failed() {
			t.Logf("log of Dragoman:\n%s", logs)
		}
	})
	testkit.Eventually(t, "it listens", func() bool {
		m := listening.FindStringSubmatch(logs.String())
		if m != nil {
			c.admin = m[2]
		}
		return m != nil
	})
	return c
}

// stop ends it as a service manager does.
func (c *program) stop(t *testing.T) {
	t.Helper()
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Wait(); err != nil {
		t.Errorf("it ends with %v", err)
	}
}

// samples is the text of /metrics.
type samples string

func (c *program) metrics(t *testing.T) samples {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.admin+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Close = true
	res, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return samples(text)
}

// sum returns the sum of a metric over the samples with these labels: name, value, name, value.
func (s samples) sum(metric string, labels ...string) (sum float64) {
	for line := range strings.Lines(string(s)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		wanted := name == metric || strings.HasPrefix(name, metric+"{")
		for i := 0; i < len(labels); i += 2 {
			wanted = wanted && strings.Contains(name, fmt.Sprintf("%s=%q", labels[i], labels[i+1]))
		}
		if n, err := strconv.ParseFloat(value, 64); wanted && err == nil {
			sum += n
		}
	}
	return sum
}

// emitting is a provider that has events, a number in each second, for a time.
type emitting struct {
	refusing
	begin chan struct{} // closed when it is to begin
	sent  atomic.Int64
	late  atomic.Int64  // the longest that Send has taken, in ns
	done  chan struct{} // closed when all are sent
}

func (p *emitting) ListCapabilities(ctx context.Context, q *providerpb.ListCapabilitiesRequest) (*providerpb.ListCapabilitiesResponse, error) {
	out, err := p.refusing.ListCapabilities(ctx, q)
	out.Features = []providerpb.Feature{providerpb.Feature_FEATURE_EVENTS}
	return out, err
}

// Events sends the events once.
func (p *emitting) Events(_ *providerpb.EventsRequest, to grpc.ServerStreamingServer[cloudeventspb.CloudEvent]) error {
	select {
	case <-p.begin:
	case <-to.Context().Done():
		return to.Context().Err()
	}
	began := time.Now()
	for tick := time.NewTicker(10 * time.Millisecond); time.Since(began) < *eventsTime; <-tick.C {
		for want := int64(time.Since(began).Seconds() * float64(*eventsRate)); p.sent.Load() < want; {
			now := time.Now()
			if err := to.Send(emitted(int(p.sent.Load()), now)); err != nil {
				return err
			}
			p.sent.Add(1)
			p.late.Store(max(p.late.Load(), int64(time.Since(now))))
		}
	}
	close(p.done)
	<-to.Context().Done()
	return status.Error(codes.Canceled, "the caller has left")
}

// emitted is the nth event of a provider.
func emitted(n int, at time.Time) *cloudeventspb.CloudEvent {
	source, id := loadtest.Place(n)
	stamp := &cloudeventspb.CloudEvent_CloudEventAttributeValue{Attr: &cloudeventspb.CloudEvent_CloudEventAttributeValue_CeString{CeString: at.UTC().Format(time.RFC3339Nano)}}
	return &cloudeventspb.CloudEvent{Id: id, Source: source, SpecVersion: cloudevents.SpecVersion, Type: "provider.metric.reported",
		Attributes: map[string]*cloudeventspb.CloudEvent_CloudEventAttributeValue{"time": stamp}, Data: &cloudeventspb.CloudEvent_TextData{TextData: fmt.Sprintf(`{"n":%d}`, n)}}
}

// Every event of a provider is delivered or a dead letter, at each sink, and what is delivered has the order of its source, while receivers fail half of
// the time and NATS restarts. The provider never waits, and the memory of the process is bounded by that of the queues. `make events` runs a
// minute at 5,000 a second.
func TestProviderLoad(t *testing.T) {
	const queue = 4 << 20
	p := &emitting{begin: make(chan struct{}), done: make(chan struct{})}
	at, _ := serveProvider(t, "", p)
	bus := natstest.Start(t, nil)
	kept := bus.Stream(t, "events.>")
	ledgers := map[string]*loadtest.Ledger{"batched": loadtest.NewLedger(), "single": loadtest.NewLedger(), "bus": loadtest.NewLedger()}
	dead := filepath.Join(t.TempDir(), "dead.jsonl")
	config := fmt.Sprintf("[upstreams.default]\nurl = \"grpc://%s\"\n[events]\ntypes = [\"provider.*\"]\nqueue = \"4MiB\"\ndead_letter = %q\ndead_letter_bytes = \"1GiB\"\n", at, dead)
	const tries = "timeout = \"1s\"\nmax_attempts = 10\nretry_backoff = \"10ms\"\nretry_time = \"1m\"\nconcurrency = 64\n"
	for _, name := range []string{"batched", "single"} {
		mode := map[string]string{"batched": "batched", "single": "structured"}[name]
		config += fmt.Sprintf("[events.sinks.%s]\nurl = %q\nmode = %q\nsecret = %q\n%s", name, loadtest.Receiver(t, ledgers[name]), mode, eventsSecret, tries)
	}
	config += fmt.Sprintf("[events.sinks.bus]\ntype = \"nats\"\nurl = %q\nsubject = \"events.{type}\"\n%s", bus.URL(), tries)
	d := startProgram(t, config)
	names := []string{"batched", "single", "bus"}
	idle := d.metrics(t).sum("process_resident_memory_bytes")
	close(p.begin)
	restarted := make(chan struct{})
	go func() {
		defer close(restarted)
		for range 3 {
			<-time.After(*eventsTime / 5)
			bus.Down()
			<-time.After(min(*eventsTime/20, 2*time.Second))
			bus.Up(t)
		}
	}()
	most, deepest := 0.0, map[string]float64{}
	testkit.Until(t, "all events are accepted and settled", *eventsTime+2*time.Minute, func() bool {
		m := d.metrics(t)
		most = max(most, m.sum("process_resident_memory_bytes"))
		left := 0.0
		for _, name := range names {
			deepest[name] = max(deepest[name], m.sum("dragoman_events_queued_bytes", "sink", name))
			left += m.sum("dragoman_events_queued", "sink", name)
		}
		select {
		case <-p.done:
			return left == 0 && m.sum("dragoman_events_total", "outcome", "accepted") == float64(p.sent.Load())
		default:
			return false
		}
	})
	<-restarted
	count, m := int(p.sent.Load()), d.metrics(t)
	d.stop(t)
	natstest.Read(t, kept, func(data []byte) {
		e, err := cloudevents.Parse(data)
		if err != nil {
			t.Fatal(err)
		}
		ledgers["bus"].Take(e)
	})
	t.Logf("%d events; the provider waited %s at most; memory grew from %.0f to %.0f MiB at most", count, time.Duration(p.late.Load()), idle/(1<<20), most/(1<<20))
	letters := loadtest.ReadLetters(t, dead)
	for _, name := range names {
		n := func(metric string, labels ...string) int { return int(m.sum(metric, append(labels, "sink", name)...)) }
		const sink = "dragoman_events_sink_total"
		ledgers[name].Account(t, name, count, loadtest.Counts{Delivered: n(sink, "outcome", "delivered"), Dead: n(sink, "outcome", "dead"), Lost: n(sink, "outcome", "lost"),
			Retried: n("dragoman_events_retries_total")}, letters[name])
		t.Logf("%s: queue of %.1f MiB at most", name, deepest[name]/(1<<20))
		if deepest[name] > queue+cloudevents.MaxSize {
			t.Errorf("%s: the queue had %.0f bytes", name, deepest[name])
		}
	}
	if bad := m.sum("dragoman_events_total", "outcome", "refused") + m.sum("dragoman_events_total", "outcome", "invalid"); bad != 0 {
		t.Errorf("%v events were not accepted", bad)
	}
	// A queue for each sink and one of the dead letters, which the collector lets double; and as much for what is under way.
	if bound := float64(4 * 4 * queue); most-idle > bound && !raceDetector {
		t.Errorf("memory grew by %.0f MiB, more than %.0f", (most-idle)/(1<<20), bound/(1<<20))
	}
	if wait := time.Duration(p.late.Load()); wait > 5*time.Second {
		t.Errorf("the provider waited %s", wait)
	}
}
