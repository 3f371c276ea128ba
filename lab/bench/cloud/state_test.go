// These tests change the state from several processes.

package cloud

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
)

func nodes(names ...string) []*corev1.Node {
	var all []*corev1.Node
	for _, name := range names {
		all = append(all, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	return all
}

// process builds the cloud as another process would.
func process(t *testing.T, store Store) cloudprovider.Interface {
	t.Helper()
	t.Setenv(Journal, filepath.Join(t.TempDir(), "journal"))
	t.Setenv(Latency, "0s")
	t.Setenv(Durable, store.Path)
	made, err := FromEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestAnotherProcessFindsTheLoadBalancerAndChangesNothing(t *testing.T) {
	store := Store{Path: filepath.Join(t.TempDir(), "cloud.json")}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: types.UID("1-2")}}
	ctx := context.Background()
	before, _ := process(t, store).LoadBalancer()
	made, err := before.EnsureLoadBalancer(ctx, "", service, nodes("b", "a"))
	if err != nil {
		t.Fatal(err)
	}
	after, _ := process(t, store).LoadBalancer()
	status, err := after.EnsureLoadBalancer(ctx, "", service, nodes("a", "b"))
	if err != nil || status.Ingress[0].IP != made.Ingress[0].IP {
		t.Error(status, made, err)
	}
	if err := after.UpdateLoadBalancer(ctx, "", service, nodes("b", "c")); err != nil {
		t.Error(err)
	}
	service.Annotations = map[string]string{Annotation: "gold"}
	if _, err := after.EnsureLoadBalancer(ctx, "", service, nodes("b", "c")); err != nil {
		t.Error(err)
	}
	if err := store.Update(func(state *State) error { state.Undeletable = []string{"a12"}; return nil }); err != nil {
		t.Fatal(err)
	}
	if err := after.EnsureLoadBalancerDeleted(ctx, "", service); !errors.Is(err, errInUse) {
		t.Error("a load balancer in use was deleted:", err)
	}
	if err := store.Update(func(state *State) error { state.Undeletable = nil; return nil }); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := before.EnsureLoadBalancerDeleted(ctx, "", service); err != nil {
			t.Error(err)
		}
	}
	second, err := before.EnsureLoadBalancer(ctx, "", service, nil)
	if err != nil || second.Ingress[0].IP == made.Ingress[0].IP {
		t.Error("a load balancer that was made again has the address of the first:", second, err)
	}
	state, err := store.Read()
	if err != nil {
		t.Fatal(err)
	}
	var actions []Action
	for _, change := range state.Changes {
		actions = append(actions, change.Action)
	}
	if !slices.Equal(actions, []Action{Created, Retargeted, Respecified, Deleted, Created}) {
		t.Error(actions)
	}
	if change := state.Changes[1]; !slices.Equal(change.Joined, []string{"c"}) || !slices.Equal(change.Left, []string{"a"}) {
		t.Error(change)
	}
}

func TestReadingWritesNothing(t *testing.T) {
	store := Store{Path: filepath.Join(t.TempDir(), "cloud.json")}
	if state, err := store.Read(); err != nil || len(state.Changes) > 0 {
		t.Error(state, err)
	}
	if _, err := os.Stat(store.Path); !os.IsNotExist(err) {
		t.Error("a read created the file of the state:", err)
	}
}

func TestOnlyMachinesOfTheStateExist(t *testing.T) {
	store := Store{Path: filepath.Join(t.TempDir(), "cloud.json")}
	if err := store.Update(func(state *State) error { state.Machines["off"] = true; return nil }); err != nil {
		t.Fatal(err)
	}
	instances, _ := process(t, store).InstancesV2()
	ctx := context.Background()
	for name, expected := range map[string]struct{ exists, off bool }{"off": {true, true}, "other": {}} {
		node := nodes(name)[0]
		exists, err := instances.InstanceExists(ctx, node)
		if err != nil || exists != expected.exists {
			t.Error(name, exists, err)
		}
		if off, err := instances.InstanceShutdown(ctx, node); err != nil || off != expected.off {
			t.Error(name, off, err)
		}
		_, err = instances.InstanceMetadata(ctx, node)
		if expected.exists == (err != nil) {
			t.Error(name, err)
		}
	}
}
