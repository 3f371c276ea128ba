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

// twoPods are replicas whose providers have a Lease of their own; the first one leads.
func (s *stage) twoPods() (first, second *pod) {
	s.t.Helper()
	first, second = s.pod(), s.pod()
	for _, p := range []*pod{first, second} {
		p.startElected()
		p.startController(soon...)
		eventually(s.t, time.Minute, func() string {
			if _, err := os.Stat(first.socket()); err != nil {
				return err.Error()
			}
			return ""
		})
	}
	s.addService("one", nil)
	s.served("one", time.Minute)
	return first, second
}

func (p *pod) startElected() {
	p.t.Helper()
	p.startVendor(append(soon, "--leader-elect-resource-name=example-provider")...)
}

func TestWorkGoesOnWithoutTheLeadingProviderAndWithoutItsPod(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.restrictVendor()
	first, second := s.twoPods()
	s.addNode("node-1")
	s.initialised("node-1")
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
	first.startElected()

	// The kubelet ends a native sidecar, which the provider is, after the other containers.
	for _, ended := range []*process{second.controller, second.provider} {
		_ = ended.command.Process.Signal(syscall.SIGTERM)
		if code := ended.exit(t, time.Minute); code != 0 {
			t.Errorf("%s ended with exit code %d", ended.log, code)
		}
	}
	s.addService("three", nil)
	_, took = s.served("three", time.Minute)
	t.Logf("served again %v after the leading Pod was ended", took)
}

func TestWorkGoesOnWithoutTheLeadingController(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.restrictVendor()
	first, _ := s.twoPods()
	first.controller.kill()
	s.addService("two", nil)
	_, took := s.served("two", 2*time.Minute)
	t.Logf("served again %v after the leading controller was killed for good", took)
	if code := first.provider.exit(t, time.Second); code != 1 {
		t.Errorf("the provider without a controller ended with exit code %d", code)
	}
	if log := first.provider.text(); !strings.Contains(log, "no controller has asked this provider for 1m15s: another replica may lead") {
		t.Error("it does not say why it ended")
	}
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
