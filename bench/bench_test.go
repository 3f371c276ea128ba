package main

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
	if counts, err := linesOf(path)(); err != nil || len(counts) != 0 {
		t.Error("a journal that no call has made yet:", counts, err)
	}
	if err := os.WriteFile(path, []byte("InstanceMetadata\nEnsureLoadBalancer\nInstanceMetadata\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	counts, err := linesOf(path)()
	if err != nil || !maps.Equal(counts, map[string]int{"InstanceMetadata": 2, "EnsureLoadBalancer": 1}) {
		t.Error(counts, err)
	}
	for operation, changes := range map[string]bool{
		"InstanceMetadata": false, "FindLoadBalancer": false, "GetLoadBalancer": false, "ListInstances": false,
		"EnsureLoadBalancer": true, "EnsureLoadBalancerDeleted": true, "SetTargets": true,
	} {
		if changesCloud(operation) != changes {
			t.Errorf("changesCloud(%s) is %t", operation, !changes)
		}
	}
}

func TestKubeconfigIsFoundAfterProgressOfTheTestbed(t *testing.T) {
	for log, expected := range map[string]string{
		"": "", "testbed: building\n": "", "testbed: from /assets\n/tmp/x/kube": "", "testbed: building\n/tmp/x/kubeconfig\n": "/tmp/x/kubeconfig",
	} {
		if path, found := pathIn(log); path != expected || found != (expected != "") {
			t.Errorf("%q: %q, %t", log, path, found)
		}
	}
}

func TestActionIsReadFromTheTableOfAPlan(t *testing.T) {
	table := "I1123 default/web-1 ensure\n SERVICE        ACTION  CAUSE\n default/web    hold\n default/web-1  ensure  unrecorded\n\n0 load balancers\n"
	for service, action := range map[string]string{"default/web": "hold", "default/web-1": "ensure"} {
		if !planned(table, service, action) || planned(table, service, "keep") || planned(table, service+"0", action) {
			t.Error(service)
		}
	}
}

func TestMigrateNeedsEnoughObjects(t *testing.T) {
	chosen, err := parseMigrate([]string{"--nodes=3", "--services=4", "--markdown=x"})
	if err != nil || chosen.nodes != 3 || chosen.services != 4 || chosen.markdown != "x" {
		t.Error(chosen, err)
	}
	for _, wrong := range [][]string{{"--nodes=2"}, {"--services=3"}, {"now"}} {
		if _, err := parseMigrate(wrong); err == nil {
			t.Errorf("%q was accepted", wrong)
		}
	}
}

func TestQuickIsADefaultThatOtherFlagsChange(t *testing.T) {
	chosen, err := parse([]string{"--quick", "--nodes=7", "--contestants=mock,adapter"})
	if err != nil || chosen.nodes != 7 || chosen.services != 20 || chosen.rounds != 1 || ids(chosen.contestants) != "mock,adapter" {
		t.Error(chosen, err)
	}
	for _, wrong := range [][]string{{"--rounds=0"}, {"--contestants=other"}, {"nodes"}} {
		if _, err := parse(wrong); err == nil {
			t.Errorf("%q was accepted", wrong)
		}
	}
}
