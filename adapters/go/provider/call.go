// This file has the facts of one call, which a handler reads from its context.

package provider

import (
	"context"
	"log/slog"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
)

// Cluster is the cluster that calls are about.
type Cluster struct {
	// Name is the controller's --cluster-name.
	Name string
	// --cluster-uid, else the UID of kube-system: a stable identity for tags in the cloud. Empty: not known; a
	// provider that tags with it must refuse to change anything then.
	UID string
	// PodCIDRs: none, one, or one of each IP family.
	PodCIDRs []string
	// ServiceCIDRs: none, one, or one of each IP family.
	ServiceCIDRs []string
}

// Call has the facts of one call, for its handler.
type Call struct {
	// RPC is the method's name.
	RPC string
	// RequestID names this attempt in logs, traces and the cloud's client tokens. It changes with the
	// next attempt, so it is not what a change is idempotent by.
	RequestID string
	// Cluster that the call is about.
	Cluster Cluster
	// Identity of the load balancer in the last answer about the Service; nil: there was none, or the call is about no
	// Service. It is a hint, by which a provider whose lists lag behind its creations looks first: act only on what
	// carries the Service's UID.
	Identity *v1.LoadBalancerIdentity
	// Traceparent is the caller's W3C trace context; may be empty.
	Traceparent string
	// Log names the call in each line.
	Log *slog.Logger

	method       *v1.Method
	maxSendBytes int
	callerGone   <-chan struct{}
	hold         func() (release func())
}

type callKey struct{}

// CallOf returns the facts of the call that ctx belongs to. Outside a call they are empty, but Log works.
func CallOf(ctx context.Context) Call {
	if call, ok := ctx.Value(callKey{}).(Call); ok {
		return call
	}
	return Call{Log: logger()}
}

// WithCall returns a context as a handler gets it, for tests of a vendor's handlers.
func WithCall(ctx context.Context, call Call) context.Context {
	if call.Log == nil {
		call.Log = logger()
	}
	return context.WithValue(ctx, callKey{}, call)
}

// CallerGone is closed once the caller no longer waits; nil outside a call.
func CallerGone(ctx context.Context) <-chan struct{} { return CallOf(ctx).callerGone }

// Hold keeps the process from ending before release is called, as long as it waits for running calls:
// for work that outlives the handler of ctx.
func Hold(ctx context.Context) (release func()) {
	if hold := CallOf(ctx).hold; hold != nil {
		return hold()
	}
	return func() {}
}

// Check fails once the caller no longer waits: it cancelled, its deadline passed, its connection was
// lost, or this process is ending. A handler that changes the cloud asks before each change, for its
// context outlives the caller (see LoadBalancers).
func Check(ctx context.Context) error {
	select {
	case <-CallOf(ctx).callerGone:
		return errCallerGone
	default:
		return ctx.Err()
	}
}
