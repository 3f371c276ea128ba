// This file has the interface about load balancers, and the answers that its methods give.

package provider

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
)

// LoadBalancers makes and removes the load balancers of Services.
//
// The key is Service.uid. Tag with it and with Call.Cluster.UID, in the cloud call that creates: a
// reply may be lost, and the process may be killed at any time. Each method carries the whole desired state
// and may be repeated. The server runs one changing call per Service at a time, also while a handler
// outlives its caller, and no more of all Services than max_in_flight says.
//
// The context of Ensure, Update and Delete outlives the caller by up to 30 s, so that a cloud request
// in flight is not cut off: ask Check between two changes of the cloud, and begin no further one when
// it fails, unless what was made cannot be found from its key without it.
type LoadBalancers interface {
	// GetLoadBalancer compares the load balancer with the Service and, unless targets is nil, with
	// those. Answers: ready, differs, in progress, not managed, absent. Changes nothing.
	GetLoadBalancer(ctx context.Context, service *v1.Service, targets *Targets) (*v1.LoadBalancerAnswer, error)
	// EnsureLoadBalancer makes the load balancer what the Service and its targets ask for. An
	// empty set of targets is legal. Answers: ready, in progress, not managed.
	EnsureLoadBalancer(ctx context.Context, service *v1.Service, targets *Targets) (*v1.LoadBalancerAnswer, error)
	// UpdateLoadBalancerNodes gives one load balancer new targets and changes nothing else. Answers:
	// ready, in progress, not managed, absent.
	UpdateLoadBalancerNodes(ctx context.Context, service *v1.Service, targets *Targets) (*v1.LoadBalancerAnswer, error)
	// DeleteLoadBalancer removes every part; without any it is absent. Answers: absent, retained, not
	// managed, in progress.
	DeleteLoadBalancer(ctx context.Context, service *v1.Service) (*v1.LoadBalancerAnswer, error)
}

// LoadBalancerLister is implemented by LoadBalancers that can list: the capability "list" is offered
// exactly then.
type LoadBalancerLister interface {
	// ListLoadBalancers hands everything that this cluster owns to send. Nil means that the list is
	// whole.
	ListLoadBalancers(ctx context.Context, send func(*v1.OwnedLoadBalancer) error) error
}

// LoadBalancerPlanner is implemented by LoadBalancers that can plan: the capability "plan" is offered
// exactly then.
type LoadBalancerPlanner interface {
	// PlanLoadBalancer lists the changes that an Ensure, or without targets a Delete, would make.
	// Changes nothing.
	PlanLoadBalancer(ctx context.Context, service *v1.Service, targets *Targets) ([]*v1.PlannedChange, error)
}

// LoadBalancerReady says that the load balancer is in sync and reached by these addresses.
func LoadBalancerReady(ingress ...*v1.LoadBalancerIngress) *v1.LoadBalancerAnswer {
	return &v1.LoadBalancerAnswer{
		Disposition: v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_READY,
		Status:      &v1.LoadBalancerStatus{Ingress: ingress},
	}
}

// LoadBalancerUpdated says that the targets are in place, and nothing about addresses.
func LoadBalancerUpdated() *v1.LoadBalancerAnswer {
	return &v1.LoadBalancerAnswer{Disposition: v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_READY}
}

// LoadBalancerDiffers is an answer to Get alone: the load balancer works, but an Ensure would change
// it. difference is for the log.
func LoadBalancerDiffers(difference string) *v1.LoadBalancerAnswer {
	return &v1.LoadBalancerAnswer{
		Disposition: v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_DIFFERS, Message: difference,
	}
}

// LoadBalancerInProgress says that the change was accepted: the controller asks again after
// retryAfter, 1 s to 5 min. Early addresses are published.
func LoadBalancerInProgress(retryAfter time.Duration, early ...*v1.LoadBalancerIngress) *v1.LoadBalancerAnswer {
	answer := &v1.LoadBalancerAnswer{
		Disposition: v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_IN_PROGRESS,
		RetryAfter:  durationpb.New(retryAfter),
	}
	if len(early) > 0 { // an empty status says nothing
		answer.Status = &v1.LoadBalancerStatus{Ingress: early}
	}
	return answer
}

// LoadBalancerNotManaged says that another controller owns the Service. Nothing was touched.
func LoadBalancerNotManaged() *v1.LoadBalancerAnswer {
	return &v1.LoadBalancerAnswer{Disposition: v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_NOT_MANAGED}
}

// LoadBalancerAbsent says that no part of the load balancer is left, or that there is none to update.
func LoadBalancerAbsent() *v1.LoadBalancerAnswer {
	return &v1.LoadBalancerAnswer{Disposition: v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_ABSENT}
}

// LoadBalancerRetained is an answer to Delete alone: it is kept on purpose, and the finalizer may go.
func LoadBalancerRetained() *v1.LoadBalancerAnswer {
	return &v1.LoadBalancerAnswer{Disposition: v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_RETAINED}
}
