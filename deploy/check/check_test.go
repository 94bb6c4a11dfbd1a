package check

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/yaml"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// Everything is tried with the binary that `make build` has made.
func dragoman(t *testing.T) string {
	t.Helper()
	file, err := filepath.Abs("../../dragoman")
	if err == nil {
		_, err = os.Stat(file)
	}
	if err != nil {
		t.Fatalf("%v: make build", err)
	}
	return file
}

// run runs a command and returns what it printed; it must end with code 0.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	c := exec.CommandContext(t.Context(), name, args...)
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil {
		t.Fatalf("%s %q: %v\n%s%s", name, args, err, out.String(), errs.String())
	}
	return out.String()
}

// decode reads documents into the types of the Kubernetes API: an unknown field, one twice, or a value of another kind is an error.
func decode(t *testing.T, from, text string) (all []runtime.Object) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), appsv1.AddToScheme(scheme), networkingv1.AddToScheme(scheme), policyv1.AddToScheme(scheme),
		autoscalingv2.AddToScheme(scheme), monitoringv1.AddToScheme(scheme), gatewayv1.Install(scheme)); err != nil {
		t.Fatal(err)
	}
	strict := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: true, Strict: true})
	docs := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	for {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(doc), "kind:") { // only comments
			continue
		}
		o, _, err := strict.Decode(doc, nil, nil)
		if err != nil {
			t.Errorf("%s: %v in\n%s", from, err, doc)
			continue
		}
		all = append(all, o)
	}
}

// judge looks at the objects as a whole, as far as the API server would: names, selectors, ports, volumes.
func judge(t *testing.T, from string, objects []runtime.Object) {
	t.Helper()
	var d *appsv1.Deployment
	var s *corev1.Service
	for _, o := range objects {
		switch o := o.(type) {
		case *appsv1.Deployment:
			d = o
		case *corev1.Service:
			if o.Labels["app.kubernetes.io/component"] == "" {
				s = o
			}
		}
	}
	if d == nil || s == nil {
		t.Fatalf("%s: no Deployment, or no Service", from)
	}
	labels := d.Spec.Template.Labels
	selects := func(who string, want map[string]string) {
		for k, v := range want {
			if labels[k] != v {
				t.Errorf("%s: %s selects %s=%s, but the pod has %q", from, who, k, v, labels)
			}
		}
	}
	selects("the Deployment", d.Spec.Selector.MatchLabels)
	selects("the Service", s.Spec.Selector)
	for _, o := range objects {
		switch o := o.(type) {
		case *policyv1.PodDisruptionBudget:
			selects(o.Name, o.Spec.Selector.MatchLabels)
		case *networkingv1.NetworkPolicy:
			selects(o.Name, o.Spec.PodSelector.MatchLabels)
		case *autoscalingv2.HorizontalPodAutoscaler:
			if r := o.Spec.ScaleTargetRef; r.Kind != "Deployment" || r.APIVersion != "apps/v1" || r.Name != d.Name {
				t.Errorf("%s: the autoscaler scales %+v, not the Deployment", from, r)
			}
		}
	}
	judgeWays(t, from, objects)
	judgePod(t, from, &d.Spec.Template.Spec, s.Spec.Ports[0].TargetPort.StrVal)
}

// judgeWays follows what points to a Service: routes from outside, and the monitor by its labels.
func judgeWays(t *testing.T, from string, objects []runtime.Object) {
	t.Helper()
	services := map[string]*corev1.Service{}
	for _, o := range objects {
		if s, ok := o.(*corev1.Service); ok {
			services[s.Name] = s
		}
	}
	leads := func(who, service string, matches func(corev1.ServicePort) bool) {
		if s := services[service]; s == nil || !slices.ContainsFunc(s.Spec.Ports, matches) {
			t.Errorf("%s: %s leads to %q, which is no Service, or to a port that it does not have", from, who, service)
		}
	}
	for _, o := range objects {
		switch o := o.(type) {
		case *networkingv1.Ingress:
			if len(o.Spec.Rules) == 0 {
				t.Errorf("%s: an Ingress without rules", from)
			}
			for _, r := range o.Spec.Rules {
				b := r.HTTP.Paths[0].Backend.Service
				leads("the Ingress", b.Name, func(p corev1.ServicePort) bool { return p.Name == b.Port.Name })
			}
		case *gatewayv1.HTTPRoute:
			for _, b := range o.Spec.Rules[0].BackendRefs {
				leads("the HTTPRoute", string(b.Name), func(p corev1.ServicePort) bool { return p.Port == *b.Port })
			}
		case *monitoringv1.ServiceMonitor:
			found := 0
			for _, s := range services {
				if metav1.HasLabel(s.ObjectMeta, "app.kubernetes.io/component") && matched(o.Spec.Selector.MatchLabels, s.Labels) {
					leads("the ServiceMonitor", s.Name, func(p corev1.ServicePort) bool { return p.Name == o.Spec.Endpoints[0].Port })
					found++
				}
			}
			if found != 1 {
				t.Errorf("%s: the ServiceMonitor selects %d Services of %d", from, found, len(services))
			}
		}
	}
}

func matched(want, labels map[string]string) bool {
	for k, v := range want {
		if labels[k] != v {
			return false
		}
	}
	return true
}

func judgePod(t *testing.T, from string, p *corev1.PodSpec, port string) {
	t.Helper()
	volumes := map[string]bool{}
	for _, v := range p.Volumes {
		volumes[v.Name] = true
	}
	served := false
	for _, c := range slices.Concat(p.InitContainers, p.Containers) {
		for _, m := range c.VolumeMounts {
			if !volumes[m.Name] {
				t.Errorf("%s: %s mounts %s, which there is not", from, c.Name, m.Name)
			}
		}
		for _, q := range c.Ports {
			served = served || q.Name == port
		}
		// The profile "restricted" of the Pod Security Standards.
		sc := c.SecurityContext
		if sc == nil || sc.AllowPrivilegeEscalation == nil || *sc.AllowPrivilegeEscalation || sc.Capabilities == nil || !slices.Equal(sc.Capabilities.Drop, []corev1.Capability{"ALL"}) ||
			sc.ReadOnlyRootFilesystem == nil || !*sc.ReadOnlyRootFilesystem {
			t.Errorf("%s: %s has rights that it does not need: %+v", from, c.Name, sc)
		}
	}
	for _, c := range p.InitContainers {
		if c.RestartPolicy == nil || *c.RestartPolicy != corev1.ContainerRestartPolicyAlways {
			t.Errorf("%s: %s is no sidecar", from, c.Name)
		}
	}
	if !served {
		t.Errorf("%s: nobody serves the port %q", from, port)
	}
	if sc := p.SecurityContext; sc == nil || sc.RunAsNonRoot == nil || !*sc.RunAsNonRoot || sc.SeccompProfile == nil || sc.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("%s: the pod is not restricted: %+v", from, sc)
	}
}

func TestManifests(t *testing.T) {
	files, _ := filepath.Glob("../kubernetes/*.yaml")
	if len(files) == 0 {
		t.Fatal("there are none")
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		objects := decode(t, file, string(data))
		if strings.HasSuffix(file, "gateway.yaml") {
			objects = append(objects, additions(t)...)
		}
		judge(t, file, objects)
	}
	const wrong = "apiVersion: v1\nkind: Pod\nmetadata: { name: a }\nspec: { containers: [{ name: a, image: b, readinesProbe: {} }] }\n"
	scheme := runtime.NewScheme()
	_ = corev1.AddToScheme(scheme)
	strict := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: true, Strict: true})
	if _, _, err := strict.Decode([]byte(wrong), nil, nil); err == nil {
		t.Error("a misspelt field is not noticed")
	}
}

// additions are the objects that a gateway may have besides.
func additions(t *testing.T) (all []runtime.Object) {
	t.Helper()
	files, _ := filepath.Glob("../kubernetes/gateway/*.yaml")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, decode(t, file, string(data))...)
	}
	if len(all) < 5 {
		t.Fatalf("%d objects in %q", len(all), files)
	}
	return all
}

// The chart, by Helm itself: every set of values under ci/ renders, is what Kubernetes takes, and holds a configuration that Dragoman
// takes; what would let everybody in is refused.
func TestChart(t *testing.T) {
	const chart = "../helm/dragoman"
	helm := filepath.Join(t.TempDir(), "helm")
	t.Setenv("CGO_ENABLED", "0") // no C compiler is needed
	run(t, "go", "build", "-o", helm, "helm.sh/helm/v3/cmd/helm")
	files, _ := filepath.Glob(chart + "/ci/*-values.yaml")
	if len(files) == 0 {
		t.Fatal("there are no values to try")
	}
	for _, file := range files {
		t.Log(strings.TrimSpace(run(t, helm, "lint", "--strict", chart, "--values", file)))
		out := run(t, helm, "template", "one", chart, "--values", file, "--kube-version", "1.30.0", "--namespace", "tools")
		objects := decode(t, file, out)
		judge(t, file, objects)
		config := ""
		for _, o := range objects {
			if m, ok := o.(*corev1.ConfigMap); ok {
				for name, text := range m.Data {
					config = accepted(t, file, name, text)
				}
			}
		}
		for _, o := range objects {
			if p, ok := o.(*corev1.Pod); ok && !strings.HasSuffix(p.Spec.Containers[0].Args[2], config) {
				t.Errorf("%s: the trial of the chart checks %q, not %s", file, p.Spec.Containers[0].Args, config)
			}
		}
		for _, o := range objects {
			if d, ok := o.(*appsv1.Deployment); ok && (d.Spec.Replicas == nil) != strings.Contains(out, "kind: HorizontalPodAutoscaler") {
				t.Errorf("%s: the Deployment has %v replicas, and who sets them is not clear", file, d.Spec.Replicas)
			}
		}
		t.Logf("%s: %d objects", filepath.Base(file), len(objects))
	}
	for want, set := range map[string]string{
		"there is no server":      "secret=a,apiKeys=k.toml",
		"nobody is asked":         "config.upstreams.a.url=http://a.example",
		"apiKeys names an entry":  "apiKeys=k.toml,config.upstreams.a.url=http://a.example",
		"additional properties":   "replica=2",
		"at '/server/image'":      "mode=sidecar,secret=a,apiKeys=k.toml",
		"set admin.expose":        "config.security.allow_anonymous=true,config.upstreams.a.url=http://a.example,serviceMonitor.enabled=true",
		"at '/ingress/hosts'":     "ingress.enabled=true",
		"at '/httpRoute/parent":   "httpRoute.enabled=true",
		"kubeVersion: >=1.29.0-0": "config.security.allow_anonymous=true,config.upstreams.a.url=http://a.example",
	} {
		args := []string{"template", "one", chart, "--set", set, "--kube-version", "1.30.0"}
		if strings.HasPrefix(want, "kubeVersion") {
			args[len(args)-1] = "1.28.0"
		}
		out, err := exec.CommandContext(t.Context(), helm, args...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v, %s; want %q", set, err, out, want)
		}
	}
}

// accepted has Dragoman check a configuration, with secrets in the place of those that are mounted, and returns the file's name.
func accepted(t *testing.T, from, name, text string) string {
	t.Helper()
	dir := t.TempDir()
	for secret, value := range map[string]string{"keys.toml": "[ci]\nhashes = [\"sha256:" + strings.Repeat("0", 64) + "\"]\n", "state_key": strings.Repeat("k", 40), "search_authorization": "Bearer x"} {
		if err := os.WriteFile(filepath.Join(dir, secret), []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(text, "/etc/dragoman/secrets", dir)), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), dragoman(t), "config", "check", file)
	c.Env = append(c.Environ(), "DRAGOMAN_LISTEN=0.0.0.0:8080", "DRAGOMAN_ADMIN_LISTEN=127.0.0.1:9090")
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%s: %v: %s in\n%s", from, err, out, text)
	}
	return name
}

// The compose file, by the library with which docker compose reads it.
func TestCompose(t *testing.T) {
	options, err := cli.NewProjectOptions([]string{"../compose/compose.yaml"}, cli.WithWorkingDirectory("../compose"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := options.LoadProject(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Services) != 2 {
		t.Errorf("%d services", len(p.Services))
	}
	for name, s := range p.Services {
		if s.HealthCheck == nil || s.User == "" || !s.ReadOnly {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// The unit, by systemd where it is: it is understood, and how exposed the service is.
func TestUnit(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not here: the unit was not tried")
	}
	// It looks for the programs, so they get a root of their own.
	root := t.TempDir()
	for from, to := range map[string]string{"../systemd/dragoman.service": "etc/systemd/system", dragoman(t): "usr/local/bin", "/bin/kill": "bin"} {
		data, err := os.ReadFile(from)
		if err == nil {
			err = errors.Join(os.MkdirAll(filepath.Join(root, to), 0o755), os.WriteFile(filepath.Join(root, to, filepath.Base(from)), data, 0o755))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(filepath.Join(root, "lib/systemd/system"), os.DirFS("/lib/systemd/system")); err != nil {
		t.Logf("%v: units of the system that it refers to may be missing", err)
	}
	unit := filepath.Join(root, "etc/systemd/system/dragoman.service")
	if err := os.Chmod(unit, 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", "--recursive-errors=no", "--root="+root, "dragoman.service").CombinedOutput()
	if err != nil || strings.Contains(string(out), "dragoman.service:") {
		t.Errorf("verify: %v\n%s", err, out)
	}
	score := run(t, analyze, "security", "--offline=true", "--no-pager", "--threshold=20", unit)
	lines := strings.Split(strings.TrimSpace(score), "\n")
	t.Log(lines[len(lines)-1])
}
