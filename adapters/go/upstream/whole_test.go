package upstream

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// startVendor starts the test vendor's program, which is this one.
func (p *pod) startVendor(arguments ...string) {
	p.t.Helper()
	program, err := os.Executable()
	if err != nil {
		p.t.Fatal(err)
	}
	arguments = append(arguments, "--cloud-provider=example", "--example-region=north")
	p.startProvider(program, []string{asVendor + "=1", ofSilence + "=75s"}, arguments...)
}

func TestAVendorsMainBehindTheController(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.restrictVendor()
	pod := s.pod()
	pod.startVendor("--leader-elect=false")
	pod.startController("--leader-elect=false")
	s.addNode("node-1")
	node := s.initialised("node-1")
	if got := node.Labels[corev1.LabelTopologyRegion]; got != "north" {
		t.Errorf("the vendor's flag did not arrive: region %q", got)
	}
	s.addService("web", nil)
	service, _ := s.served("web", time.Minute)
	if service.Annotations[balancerID] != string(service.UID) {
		t.Errorf("the vendor's annotation is not there: %v", service.Annotations)
	}
	for _, entry := range service.ManagedFields {
		if strings.Contains(string(entry.FieldsV1.Raw), balancerID) && entry.Manager != "outrigger" {
			t.Errorf("%s has written the annotation, and not the controller", entry.Manager)
		}
	}
	eventually(t, time.Minute, func() string {
		if s.initialised("node-1").Annotations[taggedBy] == "" {
			return "the vendor's own controller does not work"
		}
		return ""
	})

	s.addService("slow", map[string]string{slowService: "true"})
	eventually(t, time.Minute, func() string {
		if !strings.Contains(pod.provider.text(), "the slow load balancer is begun") {
			return "no call for Service slow"
		}
		return ""
	})
	_ = pod.provider.command.Process.Signal(syscall.SIGTERM)
	if code := pod.provider.exit(t, time.Minute); code != 0 {
		t.Errorf("exit code %d after SIGTERM", code)
	}
	if service, _ := s.served("slow", time.Second); service.Annotations[balancerID] == "" {
		t.Error("SIGTERM cut off the call in flight")
	}
}

// soon are flags of both programs' elections.
var soon = []string{"--leader-elect-lease-duration=6s", "--leader-elect-renew-deadline=4s", "--leader-elect-retry-period=1s"}

func TestWorkGoesOnWithoutALeadingProviderAndWithoutALeadingController(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.restrictVendor()
	startVendor := func(p *pod) {
		p.startVendor(append(soon, "--leader-elect-resource-name=example-provider")...)
	}
	first, second := s.pod(), s.pod()
	for _, p := range []*pod{first, second} {
		startVendor(p)
		p.startController(soon...)
		// The first one leads.
		eventually(t, time.Minute, func() string {
			if _, err := os.Stat(first.socket()); err != nil {
				return err.Error()
			}
			return ""
		})
	}
	s.addNode("node-1")
	s.initialised("node-1")
	s.addService("one", nil)
	s.served("one", time.Minute)
	eventually(t, time.Minute, func() string {
		if by := s.initialised("node-1").Annotations[taggedBy]; by != fmt.Sprint(first.provider.command.Process.Pid) {
			return "tagged by process " + by
		}
		return ""
	})
	if _, err := os.Stat(second.socket()); err == nil {
		t.Error("the standby serves its socket")
	}
	first.waitHealthy()
	second.waitHealthy()

	first.provider.kill()
	s.addService("two", nil)
	_, took := s.served("two", 90*time.Second)
	t.Logf("served again %v after the leading provider was killed", took)
	startVendor(first)

	second.controller.kill()
	s.addService("three", nil)
	_, took = s.served("three", 120*time.Second)
	t.Logf("served again %v after the leading controller was killed for good", took)
	if code := second.provider.exit(t, time.Second); code != 1 {
		t.Errorf("the provider without a controller ended with exit code %d", code)
	}
	if log := second.provider.text(); !strings.Contains(log, "no controller has asked this provider for 1m15s: another replica may lead") {
		t.Error("it does not say why it ended")
	}
	startVendor(second)
	second.startController(soon...)

	// The kubelet ends a native sidecar, which the provider is, after the other containers.
	for _, ended := range []*process{first.controller, first.provider} {
		_ = ended.command.Process.Signal(syscall.SIGTERM)
		if code := ended.exit(t, time.Minute); code != 0 {
			t.Errorf("%s ended with exit code %d", ended.log, code)
		}
	}
	s.addService("four", nil)
	_, took = s.served("four", 30*time.Second)
	t.Logf("served again %v after the leading Pod was ended", took)
}

func TestTheControllersLeaseIsRefused(t *testing.T) {
	p := &pod{stage: &stage{t: t, vendor: t.TempDir() + "/kubeconfig"}, dir: t.TempDir()}
	err := os.WriteFile(p.vendor, []byte(`{"apiVersion":"v1","kind":"Config","current-context":"a",
		"contexts":[{"name":"a","context":{"cluster":"a"}}],"clusters":[{"name":"a","cluster":{"server":"http://127.0.0.1:1"}}]}`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	p.startVendor()
	if code := p.provider.exit(t, time.Minute); code != 1 {
		t.Errorf("exit code %d", code)
	}
	if log := p.provider.text(); !strings.Contains(log, "the Lease cloud-controller-manager is that of Outrigger's controller") {
		t.Errorf("it says: %s", log)
	}
}
