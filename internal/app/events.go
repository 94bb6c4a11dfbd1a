package app

import (
	"fmt"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"dragoman/adapters/events"
	"dragoman/adapters/events/deadletter"
	"dragoman/adapters/events/jetstream"
	"dragoman/adapters/events/webhook"
	"dragoman/adapters/httpd/httpclient"
	"dragoman/internal/app/component"
	"dragoman/internal/config"
	"dragoman/policies"
	"dragoman/policies/telemetry"
	"dragoman/proxy"
)

// maxContent bounds arguments, and results, in an event, in bytes. With the longest text that may follow, both fit into events.MaxSize.
const maxContent = 32 << 10

// deadLetters is the name of the component of events that could not be delivered.
const deadLetters = "events dead letters"

// buildEvents makes the sinks of events and returns the policy that makes requests events; nil: there are no sinks. What happens is sent to them from
// the activation on. rehearsal means that nothing is started.
func buildEvents(set *component.Set, cfg *config.Config, log zerolog.Logger, to *events.Emitter, rehearsal bool) (proxy.Policy, error) {
	c := &cfg.Events
	if len(c.Sinks) == 0 || rehearsal {
		set.OnActivation(func() { to.Set(nil) })
		return nil, nil //nolint:nilnil // there are none
	}
	dead, err := buildDeadLetters(set, c, log)
	if err != nil {
		return nil, err
	}
	if _, err = component.Get(set, "events", nil, component.Spec[*events.Emitter]{Build: func(reg prometheus.Registerer) (*events.Emitter, error) {
		return to, emitterMetrics(to, reg)
	}}); err != nil {
		return nil, err
	}
	settings := &events.Settings{Source: cfg.EventSource()}
	for _, s := range c.Sinks {
		queue, err := buildSink(set, c, s, dead, log)
		if err != nil {
			return nil, fmt.Errorf("events.sinks.%s: %w", s.Name, err)
		}
		settings.Routes = append(settings.Routes, events.Route{Types: s.Types, Queue: queue})
	}
	settings.Types = c.Types
	set.OnActivation(func() { to.Set(settings) })
	return telemetry.Events(telemetry.EventOptions{Wants: to.Wants, Report: func(e telemetry.Event) { to.Report(events.Own(e)) },
		Content: policies.NewArguments(policies.Arguments{What: c.Content, Redact: cfg.Audit.Redact, Value: cfg.Audit.ValueBytes, Bytes: min(cfg.Audit.ArgumentBytes, maxContent)})}), nil
}

func buildDeadLetters(set *component.Set, c *config.EventsConfig, log zerolog.Logger) (*deadletter.File, error) {
	opt := deadletter.Options{Path: c.DeadLetter, Bytes: c.DeadLetterBytes, Queue: c.Queue}
	settings := opt
	return component.Get(set, deadLetters, settings, component.Spec[*deadletter.File]{Build: func(reg prometheus.Registerer) (*deadletter.File, error) {
		opt.Failed = func(err error, lost uint64) {
			log.Error().Err(err).Uint64("lost", lost).Msg("events are lost; further losses are counted, and logged once a minute")
		}
		f, err := deadletter.Open(opt)
		if err == nil {
			err = deadMetrics(f, reg)
		}
		return f, err
	}, Stage: component.Last, Close: (*deadletter.File).Close})
}

// buildSink makes the queue of a sink. What it gets is no part of its settings, so that the queue stays when only that changes.
func buildSink(set *component.Set, c *config.EventsConfig, s *config.EventSink, dead *deadletter.File, log zerolog.Logger) (*events.Queue, error) {
	as := *s
	as.Types = nil
	roots, _ := os.ReadFile(s.CAFile) // it was readable when it was checked
	settings := []any{as, c.Queue, string(roots), set.Number(deadLetters)}
	log = log.With().Str("sink", s.Name).Logger()
	return component.Get(set, "events sink "+s.Name, settings, component.Spec[*events.Queue]{Build: func(reg prometheus.Registerer) (*events.Queue, error) {
		sink, err := newSink(s)
		if err != nil {
			return nil, err
		}
		q := events.NewQueue(events.QueueOptions{Name: s.Name, Sink: sink, Dead: dead, Bytes: c.Queue, Attempts: s.MaxAttempts, Timeout: s.Timeout, Backoff: s.RetryBackoff,
			GiveUp: s.RetryTime, AtATime: s.Concurrency, Batch: batch(s), Failing: func(err error) {
				if err == nil {
					log.Info().Msg("the sink takes events again")
					return
				}
				log.Warn().Err(err).Msg("the sink does not take events; further failures are counted, and logged once a minute")
			}})
		return q, sinkMetrics(s.Name, q, reg)
	}, Stage: component.Reports, Close: (*events.Queue).Close, HandOver: (*events.Queue).HandOver})
}

// batch returns how many events the sink gets at once.
func batch(s *config.EventSink) int {
	if s.Mode == config.Batched {
		return s.Batch
	}
	return 1
}

// newSink makes a sink, which connects when there is an event.
func newSink(s *config.EventSink) (events.Sink, error) {
	if s.Type == config.NATS {
		return jetstream.New(jetstream.Options{URLs: strings.Split(s.URL, ","), Subject: s.Subject, Binary: s.Mode == config.BinaryMode, Authorization: s.Authorization.Reveal(),
			Credentials: s.Credentials, CAFile: s.CAFile, Timeout: s.Timeout}), nil
	}
	opt := webhook.Options{URL: s.URL, Mode: s.Mode, CAFile: s.CAFile, Timeout: s.Timeout, AtATime: s.Concurrency, Agent: "dragoman/" + ReadVersion().Version}
	if text := s.Secret.Reveal(); text != "" {
		opt.Secret, _ = webhook.Secret(text) // it was valid when it was checked
	}
	for _, h := range s.Headers {
		opt.Headers = append(opt.Headers, httpclient.Header{Name: h.Name, Value: h.Value.Reveal()})
	}
	return webhook.New(opt)
}

// counts makes counters of a name that are read at each scrape, by outcome.
func counts(name, help string, labels prometheus.Labels) func(outcome string, read func() uint64) prometheus.Collector {
	return func(outcome string, read func() uint64) prometheus.Collector {
		all := prometheus.Labels{"outcome": outcome}
		for name, value := range labels {
			all[name] = value
		}
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: all}, func() float64 { return float64(read()) })
	}
}

func emitterMetrics(e *events.Emitter, reg prometheus.Registerer) error {
	of := counts("dragoman_events_total", "Events: accepted for all sinks that want them, invalid, or refused because a queue and the dead letters were full.", nil)
	return component.Register(reg,
		of("accepted", func() uint64 { n, _, _ := e.Stats(); return n }),
		of("invalid", func() uint64 { _, n, _ := e.Stats(); return n }),
		of("refused", func() uint64 { _, _, n := e.Stats(); return n }))
}

func deadMetrics(f *deadletter.File, reg prometheus.Registerer) error {
	of := counts("dragoman_events_dead_letters_total", "Events that could not be delivered: written to the file, dropped because there is none, failed because it could not be written, evicted from it to make room.", nil)
	return component.Register(reg,
		of("written", func() uint64 { return f.Stats().Written }),
		of("dropped", func() uint64 { return f.Stats().Dropped }),
		of("failed", func() uint64 { return f.Stats().Failed }),
		of("evicted", func() uint64 { return f.Stats().Evicted }))
}

func sinkMetrics(name string, q *events.Queue, reg prometheus.Registerer) error {
	label := prometheus.Labels{"sink": name}
	of := counts("dragoman_events_sink_total", "Events of a sink: delivered, dead because they were given to the dead letters, lost because those had no room.", label)
	gauge := func(metric, help string, read func() int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: metric, Help: help, ConstLabels: label}, func() float64 { return float64(read()) })
	}
	return component.Register(reg,
		of("delivered", func() uint64 { return q.Stats().Delivered }),
		of("dead", func() uint64 { return q.Stats().Dead }),
		of("lost", func() uint64 { return q.Stats().Lost }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "dragoman_events_retries_total", Help: "Attempts to deliver to a sink that failed and were followed by another.", ConstLabels: label},
			func() float64 { return float64(q.Stats().Retried) }),
		gauge("dragoman_events_queued", "Events that wait for a sink.", func() int { return q.Stats().Queued }),
		gauge("dragoman_events_queued_bytes", "Bytes of events that wait for a sink.", func() int { return q.Stats().Bytes }))
}
