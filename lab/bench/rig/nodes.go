// This file adds nodes, and waits for what controllers make of them and of the Lease.

package rig

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

const uninitialized = "node.cloudprovider.kubernetes.io/uninitialized"

// Namespace and name of the Lease of all controllers.
const (
	LeaseNamespace = "kube-system"
	LeaseName      = "cloud-controller-manager"
)

// Register adds nodes as kubelets do, under numbers after the prefix.
func (r *Rig) Register(ctx context.Context, prefix string, count int) error {
	_, err := r.Testbed(ctx, "nodes", "--prefix", prefix, "--count", fmt.Sprint(count))
	return err
}

// Initialized waits until there are so many nodes with this prefix and none has the taint.
func (r *Rig) Initialized(ctx context.Context, alive []*Process, prefix string, count int) error {
	return Until(ctx, fmt.Sprintf("%d nodes %s* without their taint", count, prefix), alive, func() (bool, error) {
		nodes, err := r.Nodes.List(labels.Everything())
		nodes = slices.DeleteFunc(nodes, func(node *corev1.Node) bool { return !strings.HasPrefix(node.Name, prefix) || IsTainted(node) })
		return len(nodes) == count, err
	})
}

// Exclude takes nodes out of all load balancers, by their label; several at a time.
func (r *Rig) Exclude(ctx context.Context, prefix string, count int) error {
	label := fmt.Appendf(nil, `{"metadata": {"labels": {%q: ""}}}`, corev1.LabelNodeExcludeBalancers)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for number := range count {
		group.Go(func() error {
			name := numbered(prefix, number)
			_, err := r.Client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, label, metav1.PatchOptions{})
			return err
		})
	}
	return group.Wait()
}

// Delete removes one of the nodes that Register has added.
func (r *Rig) Delete(ctx context.Context, prefix string, number int) error {
	return r.Client.CoreV1().Nodes().Delete(ctx, numbered(prefix, number), metav1.DeleteOptions{})
}

// numbered is the testbed's name of a node.
func numbered(prefix string, number int) string { return fmt.Sprintf("%s%05d", prefix, number) }

// IsTainted reports whether the node waits for its initialization.
func IsTainted(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == uninitialized })
}

// Leads waits until a replica that was started after since has the Lease.
func (r *Rig) Leads(ctx context.Context, replica *Replica, since time.Time) error {
	return Until(ctx, "the Lease", replica.Processes(), func() (bool, error) {
		lease, err := r.Client.CoordinationV1().Leases(LeaseNamespace).Get(ctx, LeaseName, metav1.GetOptions{})
		if err != nil || lease.Spec.HolderIdentity == nil || lease.Spec.AcquireTime == nil {
			return false, nil // there is no Lease before the first leader
		}
		return *lease.Spec.HolderIdentity != "" && lease.Spec.AcquireTime.After(since), nil
	})
}

// Clear removes the nodes and the Lease that a controller has left. Services went while it still ran.
func (r *Rig) Clear(ctx context.Context) error {
	nodes := r.Client.CoreV1().Nodes()
	if err := nodes.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return fmt.Errorf("cannot delete the nodes: %w", err)
	}
	err := Until(ctx, "the end of all nodes", []*Process{r.plane}, func() (bool, error) {
		left, err := r.Nodes.List(labels.Everything())
		return len(left) == 0, err
	})
	if err != nil {
		return err
	}
	err = r.Client.CoordinationV1().Leases(LeaseNamespace).Delete(ctx, LeaseName, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("cannot delete the Lease: %w", err)
	}
	return nil
}
