package component

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/proxy"
)

// part is a component that records what happens to it.
type part struct {
	name string
	log  *record
}

// record is safe for concurrent use: components of one stage close in parallel.
type record struct {
	mu    sync.Mutex
	lines []string
}

func (r *record) add(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, line)
}

func (r *record) take() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := strings.Join(r.lines, ", ")
	r.lines = nil
	return all
}

// spec makes parts of a name in a stage, which report how many of the name exist, and count what is made.
func (r *record) spec(name string, stage Stage) Spec[*part] {
	return Spec[*part]{Stage: stage, Build: func(reg prometheus.Registerer) (*part, error) {
		made := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "made_" + name, Help: "made"}, []string{"server"})
		if err := reg.Register(made); err != nil {
			exists := prometheus.AlreadyRegisteredError{}
			if !errors.As(err, &exists) {
				return nil, err
			}
			made = exists.ExistingCollector.(*prometheus.CounterVec)
		}
		made.WithLabelValues("s").Inc()
		return &part{name, r}, reg.Register(Gauge("parts_"+name, "parts", "s", func() int { return 1 }))
	}, Close: func(p *part) { p.log.add("close " + p.name) },
		HandOver: func(left, heir *part) {
			if left != heir {
				left.log.add("hand over " + left.name)
			}
		}}
}

func must[V any](t *testing.T) func(V, error) V {
	return func(v V, err error) V {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// value returns the sum of a metric's series, or -1 if it has none.
func value(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			sum := 0.0
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
			return sum
		}
	}
	return -1
}

// A component lives on while its settings are equal, and is replaced when they differ.
func TestComponentsOfEqualSettingsStay(t *testing.T) {
	metrics, log := prometheus.NewRegistry(), &record{}
	r := NewRegistry(metrics)
	first := r.NewSet(nil)
	a := must[*part](t)(Get(first, "a", []int{1}, log.spec("a", Last)))
	b := must[*part](t)(Get(first, "b", []int{1}, log.spec("b", Last)))
	if !first.Fresh("a") || first.Number("a") == 0 || first.Number("a") == first.Number("b") || first.Number("none") != 0 {
		t.Errorf("fresh %v, numbers %d and %d", first.Fresh("a"), first.Number("a"), first.Number("b"))
	}
	if n := value(t, metrics, "parts_a"); n != -1 {
		t.Errorf("a reading of a set that is not active: %v", n)
	}
	if left, err := first.Activate(func() {}); err != nil || len(left) != 0 {
		t.Fatalf("%v, %v", left, err)
	}
	second := r.NewSet(first)
	if got := must[*part](t)(Get(second, "a", []int{1}, log.spec("a", Last))); got != a || second.Fresh("a") || second.Number("a") != first.Number("a") {
		t.Errorf("a is made anew: fresh %v", second.Fresh("a"))
	}
	if got := must[*part](t)(Get(second, "b", []int{2}, log.spec("b", Last))); got == b || !second.Fresh("b") || second.Number("b") == first.Number("b") {
		t.Errorf("b is not made anew: fresh %v", second.Fresh("b"))
	}
	left, err := second.Activate(func() { log.add("publish") })
	if err != nil {
		t.Fatal(err)
	}
	if values := Values[*part](left); len(values) != 1 || values[0] != b || len(Values[string](left)) != 0 {
		t.Errorf("left: %v", values)
	}
	left.Close()
	if got, want := log.take(), "hand over b, publish, close b"; got != want {
		t.Errorf("%s, not %s", got, want)
	}
	if made, parts := value(t, metrics, "made_b"), value(t, metrics, "parts_b"); made != 2 || parts != 1 {
		t.Errorf("the counter is at %v, not 2; the reading at %v, not 1", made, parts)
	}
	second.Close()
	if got := log.take(); !strings.Contains(got, "close a") || !strings.Contains(got, "close b") {
		t.Error(got)
	}
}

// A component that the next set does not have loses its readings, and nobody inherits from it.
func TestComponentsThatAreGone(t *testing.T) {
	metrics, log := prometheus.NewRegistry(), &record{}
	r := NewRegistry(metrics)
	first := r.NewSet(nil)
	must[*part](t)(Get(first, "a", nil, log.spec("a", Last)))
	must[Left](t)(first.Activate(func() {}))
	if n := value(t, metrics, "parts_a"); n != 1 {
		t.Errorf("the reading is at %v, not 1", n)
	}
	left := must[Left](t)(r.NewSet(first).Activate(func() {}))
	left.Close()
	if got := log.take(); got != "close a" {
		t.Error(got)
	}
	if parts, made := value(t, metrics, "parts_a"), value(t, metrics, "made_a"); parts != -1 || made != 1 {
		t.Errorf("the reading is at %v, not gone; the counter at %v, not 1", parts, made)
	}
	r.Forget("other")
	if made := value(t, metrics, "made_a"); made != 1 {
		t.Errorf("the series of another server are dropped: %v", made)
	}
	r.Forget("s")
	if made := value(t, metrics, "made_a"); made != -1 {
		t.Errorf("the series of the server are left: %v", made)
	}
}

// A set that is discarded closes what it has made, and nothing that the active set has.
func TestDiscard(t *testing.T) {
	metrics, log := prometheus.NewRegistry(), &record{}
	r := NewRegistry(metrics)
	first := r.NewSet(nil)
	must[*part](t)(Get(first, "a", 1, log.spec("a", Last)))
	must[*part](t)(Get(first, "b", 1, log.spec("b", Last)))
	must[Left](t)(first.Activate(func() {}))
	second := r.NewSet(first)
	must[*part](t)(Get(second, "a", 1, log.spec("a", Last)))
	must[*part](t)(Get(second, "b", 2, log.spec("new b", Last)))
	failed := errors.New("cannot be made")
	if _, err := Get(second, "c", 1, Spec[*part]{Build: func(prometheus.Registerer) (*part, error) { return nil, failed }}); !errors.Is(err, failed) || second.Number("c") != 0 {
		t.Errorf("%v, number %d", err, second.Number("c"))
	}
	second.Discard()
	if got := log.take(); got != "close new b" {
		t.Error(got)
	}
	if n := value(t, metrics, "parts_b"); n != 1 {
		t.Errorf("the active reading is at %v, not 1", n)
	}
	first.CloseOne("a")
	if got := log.take(); got != "close a" {
		t.Error(got)
	}
}

// Components close stage by stage; functions of an activation run in their order, after publish, once.
func TestOrder(t *testing.T) {
	log := &record{}
	s := NewRegistry(prometheus.NewRegistry()).NewSet(nil)
	for _, stage := range []Stage{Last, Reports, Processes, Callers, Upstreams, Repeats, Sessions} {
		name := string(rune('a' + int(stage)))
		must[*part](t)(Get(s, name, nil, log.spec(name, stage)))
	}
	must[proxy.Policy](t)(GetPolicy(s, "policy", nil, func() proxy.Policy { return nil })) // closes nothing
	s.OnActivation(func() { log.add("first") })
	s.OnActivation(func() { log.add("second") })
	must[Left](t)(s.Activate(func() { log.add("publish") }))
	if got := log.take(); got != "publish, first, second" {
		t.Error(got)
	}
	s.Close()
	if got := log.take(); got != "close a, close b, close c, close d, close e, close f, close g" {
		t.Error(got)
	}
}

// Components of one stage close in parallel.
func TestOneStageClosesInParallel(t *testing.T) {
	s := NewRegistry(prometheus.NewRegistry()).NewSet(nil)
	var both sync.WaitGroup
	both.Add(2)
	for _, name := range []string{"a", "b"} {
		must[int](t)(Get(s, name, nil, Spec[int]{Build: func(prometheus.Registerer) (int, error) { return 0, nil },
			Close: func(int) { both.Done(); both.Wait() }})) // each waits for the other
	}
	s.Close()
}

// Metrics that cannot be registered are told of, and the set is active all the same.
func TestActivationWithoutMetrics(t *testing.T) {
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(Gauge("parts_a", "another help", "s", func() int { return 0 }))
	log, published := &record{}, false
	s := NewRegistry(metrics).NewSet(nil)
	must[*part](t)(Get(s, "a", nil, log.spec("a", Last)))
	if _, err := s.Activate(func() { published = true }); err == nil || !published {
		t.Errorf("error %v, published %v", err, published)
	}
}

// The registerer keeps readings back, and passes on what is counted.
func TestRegisterer(t *testing.T) {
	metrics := prometheus.NewRegistry()
	r := NewRegistry(metrics)
	s := r.NewSet(nil)
	s.Registerer().MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "counted", Help: "x"}))
	histogram := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "histogram", Help: "x"})
	s.Registerer().MustRegister(histogram)
	if value(t, metrics, "counted") != 0 || value(t, metrics, "histogram") != 0 {
		t.Error("a counter or histogram is not registered at once")
	}
	vec := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "vec", Help: "x"}, []string{"server"})
	s.Registerer().MustRegister(vec)
	if err := s.Registerer().Register(vec); err == nil {
		t.Error("a metric is registered twice")
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("MustRegister takes a metric twice")
			}
		}()
		s.Registerer().MustRegister(vec)
	}()
	one, other := Gauge("one", "x", "", func() int { return 1 }), Counter("other", "x", "s", func() uint64 { return 2 })
	must[int](t)(Get(s, "c", nil, Spec[int]{Build: func(reg prometheus.Registerer) (int, error) {
		reg.MustRegister(one, other)
		if !reg.Unregister(one) || reg.Unregister(one) {
			t.Error("Unregister does not tell whether it had the metric")
		}
		return 0, nil
	}}))
	if all := s.Collectors(); len(all) != 2 || !slices.Contains(all, prometheus.Collector(vec)) || !slices.Contains(all, other) {
		t.Errorf("collectors: %v", all)
	}
	must[Left](t)(s.Activate(func() {}))
	if value(t, metrics, "one") != -1 || value(t, metrics, "other") != 2 {
		t.Errorf("one is at %v, other at %v", value(t, metrics, "one"), value(t, metrics, "other"))
	}
}

// The series of a multiple gauge are those of one reading.
func TestMultiGauge(t *testing.T) {
	metrics, reads := prometheus.NewRegistry(), 0
	metrics.MustRegister(NewMultiGauge("many", "x", func(tell func(float64, ...string)) {
		reads++
		tell(1, "a", "x")
		tell(2, "b", "y")
	}, "first", "second"))
	if sum := value(t, metrics, "many"); sum != 3 || reads != 1 {
		t.Errorf("sum %v of %d readings", sum, reads)
	}
}
