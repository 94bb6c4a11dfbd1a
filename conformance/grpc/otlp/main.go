// Otlp serves OpenTelemetry's collector services with the receiver of the Collector itself. It sends nothing on. Telemetry
// of a scope called "refused" is refused as data that can never be processed, all other telemetry is accepted.
//
//	otlp ADDRESS
//
// listens on a loopback address until it is killed.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/zap"
)

func main() {
	if err := serve(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "otlp:", err)
		os.Exit(1)
	}
	select {}
}

// host is the Collector around the receiver: one without extensions.
type host struct{}

func (host) GetExtensions() map[component.ID]component.Component { return nil }

// serve starts the receiver, which is one for all kinds of telemetry.
func serve(ctx context.Context, address string) error {
	factory := otlpreceiver.NewFactory()
	config := factory.CreateDefaultConfig()
	if err := confmap.NewFromStringMap(map[string]any{"protocols": map[string]any{"grpc": map[string]any{"endpoint": address}}}).Unmarshal(config); err != nil {
		return err
	}
	set := receiver.Settings{ID: component.NewID(factory.Type()), TelemetrySettings: component.TelemetrySettings{
		Logger: zap.NewNop(), TracerProvider: tracenoop.NewTracerProvider(), MeterProvider: metricnoop.NewMeterProvider()}}
	traces, err := consumer.NewTraces(func(_ context.Context, of ptrace.Traces) error {
		return judge(of.SpanCount() > 0 && of.ResourceSpans().At(0).ScopeSpans().At(0).Scope().Name() == "refused")
	})
	if err != nil {
		return err
	}
	metrics, err := consumer.NewMetrics(func(_ context.Context, of pmetric.Metrics) error {
		return judge(of.MetricCount() > 0 && of.ResourceMetrics().At(0).ScopeMetrics().At(0).Scope().Name() == "refused")
	})
	if err != nil {
		return err
	}
	logs, err := consumer.NewLogs(func(_ context.Context, of plog.Logs) error {
		return judge(of.LogRecordCount() > 0 && of.ResourceLogs().At(0).ScopeLogs().At(0).Scope().Name() == "refused")
	})
	if err != nil {
		return err
	}
	of := []component.Component{nil, nil, nil}
	for i, create := range []func() (component.Component, error){
		func() (component.Component, error) { return factory.CreateTraces(ctx, set, config, traces) },
		func() (component.Component, error) { return factory.CreateMetrics(ctx, set, config, metrics) },
		func() (component.Component, error) { return factory.CreateLogs(ctx, set, config, logs) },
	} {
		if of[i], err = create(); err != nil {
			return err
		}
	}
	return of[0].Start(ctx, host{}) // all three are the same one
}

func judge(refused bool) error {
	if refused {
		return consumererror.NewPermanent(errors.New("refused, as its scope is called so"))
	}
	return nil
}
