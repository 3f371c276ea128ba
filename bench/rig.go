package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"outrigger.dev/bench/audit"
)

const (
	uninitialized  = "node.cloudprovider.kubernetes.io/uninitialized"
	leaseNamespace = "kube-system"
	leaseName      = "cloud-controller-manager"
)

// rig is the one control plane of a run, with the eyes of the bench on it.
type rig struct {
	options    options
	programs   programs
	dir        string
	plane      *process
	kubeconfig string
	client     kubernetes.Interface
	nodes      listers.NodeLister
	audit      *audit.Log
	replicas   int
	// state is the file of a cloud that outlives its processes, if there is one.
	state string
	// unwatch ends the watch of the nodes, before its API server ends.
	unwatch func()
}

// newRig starts etcd and kube-apiserver, with an audit log.
func newRig(ctx context.Context, chosen options, built programs, dir string) (*rig, error) {
	policy, log := filepath.Join(dir, "audit-policy.yaml"), filepath.Join(dir, "audit.log")
	if err := os.WriteFile(policy, []byte(audit.Policy), 0o644); err != nil {
		return nil, err
	}
	plane, err := launch(dir, "testbed", built.testbed, nil, "up", "--apiserver-arg=--audit-policy-file="+policy,
		"--apiserver-arg=--audit-log-path="+log, "--apiserver-arg=--audit-log-maxsize=100000")
	if err != nil {
		return nil, err
	}
	g := &rig{options: chosen, programs: built, dir: dir, plane: plane, unwatch: func() {}}
	if err := g.connect(ctx, log); err != nil {
		g.close()
		return nil, err
	}
	return g, nil
}

func (g *rig) connect(ctx context.Context, log string) error {
	ready := func() bool {
		text, err := os.ReadFile(g.plane.log)
		found := false
		g.kubeconfig, found = pathIn(string(text))
		return err == nil && found
	}
	if err := until(ctx, "the control plane", []*process{g.plane}, ready); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", g.kubeconfig)
	if err != nil {
		return fmt.Errorf("the kubeconfig that the testbed printed: %w", err)
	}
	config.QPS = -1
	config.ContentType = "application/vnd.kubernetes.protobuf"
	if g.client, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(g.client, 0)
	nodes := factory.Core().V1().Nodes()
	informer := nodes.Informer()
	g.nodes = nodes.Lister()
	watching, cancel := context.WithCancel(ctx)
	g.unwatch = func() { cancel(); factory.Shutdown() }
	factory.Start(watching.Done())
	if err := until(ctx, "the list of nodes", []*process{g.plane}, informer.HasSynced); err != nil {
		return err
	}
	g.audit, err = audit.Open(log)
	return err
}

// pathIn is the first complete line that is a path: the testbed's progress is in the same log.
func pathIn(log string) (string, bool) {
	for line := range strings.Lines(log) {
		if path, complete := strings.CutSuffix(line, "\n"); complete && filepath.IsAbs(path) {
			return path, true
		}
	}
	return "", false
}

// close ends the control plane; what it was started with has ended before or ends with the bench.
func (g *rig) close() {
	limit, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	g.unwatch()
	g.plane.signal(syscall.SIGTERM)
	if err := g.plane.gone(limit); err != nil {
		g.plane.signal(syscall.SIGKILL)
	}
}

// testbed runs a command of outrigger-testbed on the control plane and returns its output.
func (g *rig) testbed(ctx context.Context, arguments ...string) ([]byte, error) {
	arguments = append(arguments, "--kubeconfig", g.kubeconfig)
	command := exec.CommandContext(ctx, g.programs.testbed, arguments...)
	var said strings.Builder
	command.Stderr = &said
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("outrigger-testbed %s: %w: %s", arguments[0], err, said.String())
	}
	return output, nil
}

// register adds nodes as kubelets do.
func (g *rig) register(ctx context.Context, prefix string, count int) error {
	_, err := g.testbed(ctx, "nodes", "--prefix", prefix, "--count", fmt.Sprint(count))
	return err
}

// registerOne adds a node under exactly this name.
func (g *rig) registerOne(ctx context.Context, name string) error {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{
			{Key: uninitialized, Value: "true", Effect: corev1.TaintEffectNoSchedule},
		}},
	}
	nodes := g.client.CoreV1().Nodes()
	if _, err := nodes.Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err := nodes.PatchStatus(ctx, name, []byte(`{"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]}}`))
	return err
}

// initialised waits until there are so many nodes with this prefix and none has the taint.
func (g *rig) initialised(ctx context.Context, alive []*process, prefix string, count int) error {
	done := func() bool {
		all, err := g.nodes.List(labels.Everything())
		ready := 0
		for _, node := range all {
			if strings.HasPrefix(node.Name, prefix) && !isTainted(node) {
				ready++
			}
		}
		return err == nil && ready == count
	}
	return until(ctx, fmt.Sprintf("%d nodes %s* without their taint", count, prefix), alive, done)
}

func isTainted(node *corev1.Node) bool {
	for _, taint := range node.Spec.Taints {
		if taint.Key == uninitialized {
			return true
		}
	}
	return false
}

// leads waits until a replica that was started after `since` has the Lease.
func (g *rig) leads(ctx context.Context, one *replica, since time.Time) error {
	return until(ctx, "the Lease", one.processes(), func() bool {
		lease, err := g.client.CoordinationV1().Leases(leaseNamespace).Get(ctx, leaseName, metav1.GetOptions{})
		if err != nil || lease.Spec.HolderIdentity == nil || lease.Spec.AcquireTime == nil {
			return false
		}
		return *lease.Spec.HolderIdentity != "" && lease.Spec.AcquireTime.After(since)
	})
}

// clear removes what a contestant has left: nodes and the Lease. Services went while it still ran.
func (g *rig) clear(ctx context.Context) error {
	all, err := g.nodes.List(labels.Everything())
	if err != nil {
		return err
	}
	if len(all) > 0 {
		if err := g.client.CoreV1().Nodes().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			return fmt.Errorf("cannot delete the nodes: %w", err)
		}
	}
	gone := func() bool {
		left, err := g.nodes.List(labels.Everything())
		return err == nil && len(left) == 0
	}
	if err := until(ctx, "the end of all nodes", []*process{g.plane}, gone); err != nil {
		return err
	}
	err = g.client.CoordinationV1().Leases(leaseNamespace).Delete(ctx, leaseName, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("cannot delete the Lease: %w", err)
	}
	return nil
}

// start makes a replica with a folder of its own, whose name is short: a socket's path has 107 bytes at most.
func (g *rig) start(one contestant) (*replica, error) {
	g.replicas++
	dir := filepath.Join(g.dir, fmt.Sprintf("%d-%s", g.replicas, one.id))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	return one.start(g, dir)
}
