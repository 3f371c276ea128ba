// This file makes the Pods, and the Services in front of them.

package traffic

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"outrigger.dev/bench/rig"
)

const (
	app  = "web"
	port = 9376
)

// deploy makes a Deployment with a Pod on each machine, and waits until all are ready.
func (r *round) deploy(ctx context.Context) error {
	replicas := int32(machines)
	selected := &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
	_, err := r.Client.AppsV1().Deployments(metav1.NamespaceDefault).Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: app},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: selected,
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: selected.MatchLabels},
				Spec: corev1.PodSpec{
					Containers: []corev1.Container{{
						Name: app, Image: rig.Image, Args: []string{"serve-hostname"},
						ReadinessProbe: &corev1.Probe{
							PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(port)}},
						},
					}},
					TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
						MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: selected,
					}},
				},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("cannot make the Deployment: %w", err)
	}
	return rig.Until(ctx, "ready Pods", r.leader.Processes(), func() (bool, error) {
		deployment, err := r.Client.AppsV1().Deployments(metav1.NamespaceDefault).Get(ctx, app, metav1.GetOptions{})
		return err == nil && deployment.Status.ReadyReplicas == machines, err
	})
}

// serve makes a Service of the Pods and waits for its address.
func (r *round) serve(ctx context.Context, name string) (address string, err error) {
	services := r.Client.CoreV1().Services(metav1.NamespaceDefault)
	_, err = services.Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, Selector: map[string]string{"app": app},
			Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(port)}},
			// kube-proxy of another machine would send connections to the Pod of one that is off, until its Node is not ready.
			ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal,
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("cannot make the Service %s: %w", name, err)
	}
	err = rig.Until(ctx, "an address of the Service "+name, r.leader.Processes(), func() (bool, error) {
		service, err := services.Get(ctx, name, metav1.GetOptions{})
		if err != nil || len(service.Status.LoadBalancer.Ingress) == 0 {
			return false, err
		}
		address = service.Status.LoadBalancer.Ingress[0].IP
		return true, nil
	})
	return address, err
}

// answered makes a Service, returns the seconds from a moment to the end of its first connection that is answered, and deletes
// the Service.
func (r *round) answered(ctx context.Context, name string, since time.Time) (seconds float64, err error) {
	address, err := r.serve(ctx, name)
	if err != nil {
		return 0, err
	}
	clients := begin(ctx, address)
	err = rig.Until(ctx, "an answer of the Service "+name, r.leader.Processes(), func() (bool, error) {
		return len(clients.since(since).pods) > 0, nil
	})
	seconds = time.Since(since).Seconds()
	clients.stop()
	if err != nil {
		return 0, err
	}
	services := r.Client.CoreV1().Services(metav1.NamespaceDefault)
	if err := services.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return 0, fmt.Errorf("cannot delete the Service %s: %w", name, err)
	}
	return seconds, rig.Until(ctx, "the end of the Service "+name, r.leader.Processes(), func() (bool, error) {
		_, err := services.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})
}
