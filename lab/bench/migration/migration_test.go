// These tests judge steps, and read the table of --plan.

package migration

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"outrigger.dev/bench/audit"
	"outrigger.dev/bench/cloud"
)

func cluster(t *testing.T, change func(*corev1.Node, *corev1.Service)) Objects {
	t.Helper()
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker", ResourceVersion: "1"}, Spec: corev1.NodeSpec{ProviderID: "fake://worker"}}
	service := corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web", Finalizers: []string{"cleanup"}}}
	change(&node, &service)
	objects, err := Snapshot([]corev1.Node{node}, []corev1.Service{service})
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func TestWhatEitherControllerMayWriteIsNoDifference(t *testing.T) {
	before := cluster(t, func(*corev1.Node, *corev1.Service) {})
	after := cluster(t, func(node *corev1.Node, service *corev1.Service) {
		node.ResourceVersion = "2"
		service.Annotations = map[string]string{"outrigger.dev/last-applied": "x"}
		service.Status.Conditions = []metav1.Condition{{Type: "outrigger.dev/Accepted"}}
	})
	if differences := before.Differences(after); len(differences) > 0 {
		t.Error(differences)
	}
}

func TestEachFieldThatChangedIsNamed(t *testing.T) {
	before := cluster(t, func(*corev1.Node, *corev1.Service) {})
	after := cluster(t, func(node *corev1.Node, service *corev1.Service) {
		node.Spec.Taints = []corev1.Taint{{Key: "shutdown"}}
		service.Finalizers = nil
		service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
	})
	differences := before.Differences(after)
	for place, part := range []string{"Node worker.spec.taints", "Service web.metadata.finalizers", "Service web.status.loadBalancer"} {
		if len(differences) != 3 || !strings.HasPrefix(differences[place], part) {
			t.Errorf("%q", differences)
			break
		}
	}
	delete(after, "Node worker")
	if differences := before.Differences(after); !slices.Contains(differences, "Node worker is gone") {
		t.Error(differences)
	}
}

func TestOnlyExpectedChangesOfTheCloudAreRight(t *testing.T) {
	expected := Expected{Created: []string{"a/new"}, Deleted: []string{"a/old"}, Joined: []string{"late"}, Left: []string{"lost"}}
	right := []cloud.Change{
		{Action: cloud.Created, Service: "a/new", Joined: []string{"worker", "late"}},
		{Action: cloud.Retargeted, Service: "a/web", Joined: []string{"late"}, Left: []string{"lost"}},
		{Action: cloud.Deleted, Service: "a/old"},
	}
	count, wrong := expected.Judge(right)
	if len(wrong) > 0 || count.String() != "1 created, 1 deleted, 1 retargeted" {
		t.Error(count, wrong)
	}
	for _, change := range []cloud.Change{
		{Action: cloud.Created, Service: "a/web"}, {Action: cloud.Created, Service: "a/new"},
		{Action: cloud.Deleted, Service: "a/web"}, {Action: cloud.Respecified, Service: "a/web"},
		{Action: cloud.Retargeted, Service: "a/web", Left: []string{"worker"}},
		{Action: cloud.Retargeted, Service: "a/web", Joined: []string{"worker"}},
	} {
		if _, wrong := expected.Judge(append(slices.Clone(right), change)); len(wrong) != 1 {
			t.Error(change, wrong)
		}
	}
	edits := Expected{TakenBack: []string{"a/web"}}
	edit := cloud.Change{Action: cloud.Respecified, Service: "a/web"}
	if _, wrong := edits.Judge([]cloud.Change{edit, edit}); len(wrong) > 0 {
		t.Error(wrong)
	}
	if _, wrong := edits.Judge([]cloud.Change{edit}); len(wrong) != 1 {
		t.Error("the edit was not taken back:", wrong)
	}
	if _, wrong := expected.Judge(nil); len(wrong) != 2 {
		t.Error("what was asked for and did not happen:", wrong)
	}
	if count, _ := (Expected{}).Judge(nil); count.String() != "0" {
		t.Error(count)
	}
}

func TestWritesAreCountedByTheObjectsThatStood(t *testing.T) {
	standing := cluster(t, func(*corev1.Node, *corev1.Service) {})
	count := Count([]audit.Request{
		{Verb: "patch", Resource: "nodes/status", Name: "worker"}, {Verb: "list", Resource: "nodes"},
		{Verb: "patch", Resource: "services/status", Name: "web"}, {Verb: "create", Resource: "events", Name: "web.18c"},
		{Verb: "create", Resource: "events", Name: "new.18d"}, {Verb: "patch", Resource: "nodes", Name: "new"},
		{Verb: "patch", Resource: "services", Name: "leaving"},
		{Verb: "update", Resource: "leases", Name: "ccm"}, {Verb: "get", Resource: "leases", Name: "ccm"},
	}, standing)
	if expected := (Writes{Nodes: 1, Services: 1, Events: 1, Others: 3, Leases: 1}); count != expected {
		t.Errorf("%+v", count)
	}
}

func TestTableTellsTheTwoControllersApart(t *testing.T) {
	took := 16.44
	report := Report{Steps: []Step{
		{Title: "there", Leaderless: &took, Upstream: Writes{Leases: 3}, Outrigger: Writes{Services: 10}, Calls: 12, Wrong: []string{"x"}},
		{Title: "plan"},
	}}
	table := report.Table()
	expected := []string{"there", "16.4", "–", "0 / 0", "0 / 10", "0 / 0", "0 / 0", "3 / 0", "12", "0"}
	if len(table) != 3 || !slices.Equal(table[1], expected) || len(table[0]) != len(expected) {
		t.Errorf("%q", table)
	}
	if wrong := report.Wrong(); !slices.Equal(wrong, []string{"there: x"}) {
		t.Error(wrong)
	}
}

func TestActionIsReadFromTheTableOfAPlan(t *testing.T) {
	table := "I1123 default/web-1 ensure\n SERVICE        ACTION  CAUSE\n default/web    hold\n default/web-1  ensure  unrecorded\n\n0 load balancers\n"
	for service, action := range map[string]string{"default/web": "hold", "default/web-1": "ensure"} {
		if !isPlanned(table, service, action) || isPlanned(table, service, "keep") || isPlanned(table, service+"0", action) {
			t.Error(service)
		}
	}
}

func TestMigrateNeedsEnoughObjects(t *testing.T) {
	o, err := parse([]string{"--nodes=3", "--services=4", "--markdown=x"})
	if err != nil || o.nodes != 3 || o.services != 4 {
		t.Error(o, err)
	}
	for _, wrong := range [][]string{{"--nodes=2"}, {"--services=3"}, {"now"}} {
		if _, err := parse(wrong); err == nil {
			t.Errorf("%q was accepted", wrong)
		}
	}
}
