// These tests read the kernel's account, a journal and the testbed's output.

package rig

import (
	"maps"
	"os"
	"path/filepath"
	"testing"
)

func TestPeakAndCPUAreReadFromTheKernelsAccount(t *testing.T) {
	peak, err := peakKiB("Name:\tx\nVmPeak:\t  99 kB\nVmHWM:\t    2048 kB\nVmRSS:\t 7 kB\n")
	if err != nil || peak != 2048 {
		t.Error(peak, err)
	}
	if _, err := peakKiB("Name:\tx\n"); err == nil {
		t.Error("a status without a peak was accepted")
	}
	ticks, err := cpuTicks("42 (a (b) c) S 1 42 42 0 -1 4194560 5 0 0 0 120 30 0 0 20 0 9 0 1 2 3\n")
	if err != nil || ticks != 150 {
		t.Error(ticks, err)
	}
	if _, err := cpuTicks("42 (a) S 1"); err == nil {
		t.Error("a stat with too few fields was accepted")
	}
}

func TestJournalIsCountedByOperation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	if counts, err := lineCounts(path)(); err != nil || len(counts) != 0 {
		t.Error("a journal that no call has made yet:", counts, err)
	}
	if err := os.WriteFile(path, []byte("InstanceMetadata\nEnsureLoadBalancer\nInstanceMetadata\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	counts, err := lineCounts(path)()
	if err != nil || !maps.Equal(counts, map[string]int{"InstanceMetadata": 2, "EnsureLoadBalancer": 1}) {
		t.Error(counts, err)
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	count := lineCounts(path)
	for _, step := range []struct {
		text     string
		metadata int
	}{{"", 2}, {"Instance", 2}, {"Metadata\nInstanceMetadata\n", 4}} {
		if _, err := file.WriteString(step.text); err != nil {
			t.Fatal(err)
		}
		if counts, err := count(); err != nil || counts["InstanceMetadata"] != step.metadata || len(counts) != 2 {
			t.Errorf("after %q: %v, %v", step.text, counts, err)
		}
	}
	for operation, changes := range map[string]bool{
		"InstanceMetadata": false, "FindLoadBalancer": false, "GetLoadBalancer": false, "ListInstances": false,
		"EnsureLoadBalancer": true, "EnsureLoadBalancerDeleted": true, "SetTargets": true,
	} {
		if ChangesCloud(operation) != changes {
			t.Errorf("ChangesCloud(%s) is %t", operation, !changes)
		}
	}
}

func TestKubeconfigIsFoundAfterProgressOfTheTestbed(t *testing.T) {
	for log, expected := range map[string]string{
		"": "", "testbed: building\n": "", "testbed: from /assets\n/tmp/x/kube": "", "testbed: building\n/tmp/x/kubeconfig\n": "/tmp/x/kubeconfig",
	} {
		if path, ok := pathIn(log); path != expected || ok != (expected != "") {
			t.Errorf("%q: %q, %t", log, path, ok)
		}
	}
}
