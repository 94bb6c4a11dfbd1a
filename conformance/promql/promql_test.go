// Package promql checks the dashboard and the alert rules against the metrics of Dragoman.
package promql

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

const deploy = "../../deploy/"

// metric is a line of metrics.tsv, which a test of the product compares with the registered metrics.
type metric struct {
	kind   string
	labels []string
}

// scraped are labels that Prometheus adds to all series.
var scraped = []string{"instance", "job"}

func metrics(t *testing.T) map[string]metric {
	t.Helper()
	text, err := os.ReadFile(deploy + "prometheus/metrics.tsv")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]metric{"up": {kind: "gauge", labels: scraped}}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSpace(line), "\t")
		if strings.HasPrefix(line, "#") || len(cells) < 3 {
			continue
		}
		all[cells[0]] = metric{cells[1], append(strings.FieldsFunc(cells[2], func(r rune) bool { return r == ',' }), scraped...)}
	}
	if len(all) < 50 {
		t.Fatalf("%d metrics", len(all))
	}
	return all
}

// find returns the metric of a series by its name, with the labels of the series.
func find(all map[string]metric, name string) (m metric, ok bool) {
	for suffix, kinds := range map[string]string{"_bucket": "histogram", "_sum": "histogram summary", "_count": "histogram summary"} {
		base, cut := strings.CutSuffix(name, suffix)
		if m, ok = all[base]; cut && ok && strings.Contains(kinds, m.kind) {
			if suffix == "_bucket" {
				m.labels = append(slices.Clone(m.labels), "le")
			}
			return metric{"counter", m.labels}, true
		}
	}
	m, ok = all[name]
	return m, ok && m.kind != "histogram" && m.kind != "summary"
}

// faults lists the mistakes in an expression.
func faults(all map[string]metric, text string) (wrong []string) {
	expr, err := parser.ParseExpr(text)
	if err != nil {
		return []string{err.Error()}
	}
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	known := map[string]bool{} // labels of any series in it
	parser.Inspect(expr, func(node parser.Node, path []parser.Node) error {
		v, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		m, ok := find(all, v.Name)
		if !ok {
			say("there are no series %q", v.Name)
			return nil
		}
		for _, l := range m.labels {
			known[l] = true
		}
		for _, match := range v.LabelMatchers {
			if match.Name != labels.MetricName && !slices.Contains(m.labels, match.Name) {
				say("%s has no label %q", v.Name, match.Name)
			}
		}
		counted := false
		for _, n := range path {
			if call, ok := n.(*parser.Call); ok {
				counted = counted || slices.Contains([]string{"rate", "irate", "increase"}, call.Func.Name)
			}
		}
		if counted != (m.kind == "counter") {
			say("%s is a %s: rate and increase are for counters, and counters for them", v.Name, m.kind)
		}
		return nil
	})
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		var names []string
		switch n := node.(type) {
		case *parser.AggregateExpr:
			names = n.Grouping
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				names = append(slices.Clone(n.VectorMatching.MatchingLabels), n.VectorMatching.Include...)
			}
		}
		for _, name := range names {
			if !known[name] {
				say("no series here has a label %q", name)
			}
		}
		return nil
	})
	return wrong
}

// expression is an expression in a file.
type expression struct{ where, text string }

var grafanaVariable = regexp.MustCompile(`\$(__rate_interval|instance|server)\b`)

// dashboard returns the expressions of the dashboard, with values for Grafana's variables.
func dashboard(t *testing.T) (all []expression) {
	t.Helper()
	text, err := os.ReadFile(deploy + "grafana/dragoman.json")
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
		Templating struct {
			List []struct{ Name, Definition string }
		}
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	fill := func(text string) string {
		return grafanaVariable.ReplaceAllStringFunc(text, func(v string) string {
			if v == "$__rate_interval" {
				return "5m"
			}
			return ".*"
		})
	}
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			all = append(all, expression{p.Title, fill(target.Expr)})
		}
	}
	values := regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)
	for _, v := range d.Templating.List {
		if m := values.FindStringSubmatch(v.Definition); m != nil {
			all = append(all, expression{"variable " + v.Name, "count by (" + m[2] + ") (" + fill(m[1]) + ")"})
		}
	}
	return all
}

var labelInText = regexp.MustCompile(`\$labels\.(\w+)`)

// rules returns the expressions of the alert rules, and checks their labels and annotations.
func rules(t *testing.T) (all []expression) {
	t.Helper()
	text, err := os.ReadFile(deploy + "prometheus/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr         string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			all = append(all, expression{r.Alert, r.Expr})
			if r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["runbook"] == "" {
				t.Errorf("%s has no severity, summary or runbook", r.Alert)
			}
			for _, m := range labelInText.FindAllStringSubmatch(r.Annotations["summary"], -1) {
				if !strings.Contains(r.Expr, m[1]) && m[1] != "instance" {
					t.Errorf("%s tells of a label %s, which its expression does not keep", r.Alert, m[1])
				}
			}
		}
	}
	return all
}

// The metrics and labels of the dashboard and the rules exist.
func TestExpressions(t *testing.T) {
	all := metrics(t)
	board, alerts := dashboard(t), rules(t)
	if len(board) < 50 || len(alerts) < 10 {
		t.Fatalf("%d expressions in the dashboard, %d rules", len(board), len(alerts))
	}
	for _, e := range append(board, alerts...) {
		for _, wrong := range faults(all, e.text) {
			t.Errorf("%s: %s\n%s", e.where, wrong, e.text)
		}
	}
}

// The check finds mistakes.
func TestFaults(t *testing.T) {
	all := metrics(t)
	for text, want := range map[string]string{
		"sum(": "parse error", "dragoman_nothing": "no series", "rate(dragoman_sessions[5m])": "counters", "sum(dragoman_requests_total)": "counters",
		`dragoman_sessions{server="x"}`: "no label", "sum by (tool) (rate(dragoman_requests_total[5m]))": "no series here", "dragoman_request_duration_seconds": "no series",
		"rate(dragoman_tool_duration_seconds_bucket[5m])": "no series", "rate(dragoman_requests_total_sum[5m])": "no series",
		`sum by (instance) (dragoman_sessions) / on (instance) group_left (server) dragoman_limit`: "no series here",
	} {
		if wrong := faults(all, text); !strings.Contains(strings.Join(wrong, "\n"), want) {
			t.Errorf("%s: %v, want %s", text, wrong, want)
		}
	}
	if wrong := faults(all, `histogram_quantile(0.9, sum by (le, server) (rate(dragoman_request_duration_seconds_bucket{era="modern"}[5m])))`); len(wrong) > 0 {
		t.Error(wrong)
	}
}
