// These tests hold the journal and the latency of the fake.

package cloud

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestEachCallIsInTheJournalAndTakesItsTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	t.Setenv(Journal, path)
	t.Setenv(Latency, "30ms")
	made, err := FromEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	instances, _ := made.InstancesV2()
	balancers, _ := made.LoadBalancer()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-1"}}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	ctx, began := context.Background(), time.Now()
	metadata, err := instances.InstanceMetadata(ctx, node)
	if err != nil || metadata.ProviderID != "fake://worker-1" {
		t.Error(metadata, err)
	}
	ensured, err := balancers.EnsureLoadBalancer(ctx, "", service, nil)
	if err != nil {
		t.Error(err)
	}
	status, exists, err := balancers.GetLoadBalancer(ctx, "", service)
	if err != nil || !exists || status.Ingress[0].IP != ensured.Ingress[0].IP {
		t.Error("another process would see another load balancer:", status, exists, err)
	}
	if elapsed := time.Since(began); elapsed < 90*time.Millisecond {
		t.Error("three calls took", elapsed)
	}
	journal, err := os.ReadFile(path)
	if expected := "InstanceMetadata\nEnsureLoadBalancer\nGetLoadBalancer\n"; err != nil || string(journal) != expected {
		t.Errorf("%q, %v", journal, err)
	}
}

func TestOneCallIsAboutManyMachines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	t.Setenv(Journal, path)
	t.Setenv(Latency, "0")
	made, err := FromEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	named := func(name string) *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	machines, err := made.Machines(context.Background(), "InstancesByNode", named("a"), named("b"))
	if err != nil || len(machines) != 2 || machines["a"].ProviderID != "fake://a" {
		t.Error(machines, err)
	}
	if journal, err := os.ReadFile(path); string(journal) != "InstancesByNode\n" {
		t.Errorf("%q, %v", journal, err)
	}
}

func TestCancelledCallIsNoAnswerThatAMachineIsGone(t *testing.T) {
	t.Setenv(Journal, filepath.Join(t.TempDir(), "journal"))
	t.Setenv(Latency, "1h")
	made, err := FromEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	instances, _ := made.InstancesV2()
	if _, err := instances.InstanceExists(ctx, &corev1.Node{}); err == nil {
		t.Error("no error")
	}
}
