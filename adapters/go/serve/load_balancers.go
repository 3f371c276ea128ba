// This file answers calls about load balancers with upstream's LoadBalancer.

package serve

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"

	"google.golang.org/protobuf/proto"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
)

// askAgain is when the controller asks again about a call that goes on.
const askAgain = 10 * time.Second

// errNoStatus has upstream's words.
var errNoStatus = errors.New("service status returned by EnsureLoadBalancer is nil")

// loadBalancers answers with a cloud's LoadBalancer.
type loadBalancers struct {
	cloud    *part[cloudprovider.LoadBalancer]
	classify classifier
	bridge   *bridge
	memory   *memory
	// written are the prefixes of the annotations that the cloud writes by effects, which no goal has.
	written []string
	options *OptionAnnotations
}

// newLoadBalancers asks a cloud for its load balancers.
func newLoadBalancers(options Options, cloud cloudprovider.Interface, memory *memory, outcomes *outcomes, bridged func(most int) *bridge) (*loadBalancers, *v1.LoadBalancersCapability) {
	balancers := newPart("LoadBalancer", true, cloud.LoadBalancer)
	inFlight := max(options.LoadBalancersInFlight, 1)
	return &loadBalancers{
			cloud: balancers, classify: outcomes.classify, memory: memory,
			bridge: bridged(inFlight), written: options.Effects.GetServiceAnnotationPrefixes(), options: options.LoadBalancerOptions,
		}, &v1.LoadBalancersCapability{
			Classes: options.LoadBalancerClasses, WithoutDefaultClass: options.WithoutDefaultClass,
			MaxInFlight: uint32(inFlight), ConfigurationRevision: options.ConfigurationRevision,
			TargetLabelKeys: options.TargetLabelKeys, Options: options.LoadBalancerOptions.capability(),
		}
}

// Available tells whether the cloud has shown that it has load balancers.
func (l *loadBalancers) Available() bool { return l.cloud.Available() }

func (l *loadBalancers) GetLoadBalancer(ctx context.Context, sent *v1.Service, _ *provider.Targets) (answer *v1.LoadBalancerAnswer, failed error) {
	defer l.addEffects(sent, &answer, &failed)
	type balancer struct {
		status *corev1.LoadBalancerStatus
		exists bool
	}
	got, err := callAbout(l, ctx, sent, nil, "GetLoadBalancer",
		"get "+provider.CallOf(ctx).RequestID, // an earlier look is not handed to a later call
		func(ctx context.Context, cloud cloudprovider.LoadBalancer, service *corev1.Service) (balancer, error) {
			status, exists, err := cloud.GetLoadBalancer(ctx, clusterName(ctx), service)
			return balancer{status, exists}, err
		})
	var waiting *stillRunning
	switch {
	case errors.Is(err, cloudprovider.ImplementedElsewhere):
		return provider.LoadBalancerNotManaged(), nil
	case errors.As(err, &waiting) && !waiting.begun:
		return nil, l.classify.asError(err) // the state is unknown; "in progress" would lead to an Ensure
	case err != nil:
		return l.unfinished(err)
	case !got.exists:
		return provider.LoadBalancerAbsent(), nil
	case got.status == nil || len(got.status.Ingress) == 0:
		// Upstream reads the bool alone, and clouds fill nothing else. It does not say that there is no address.
		return provider.LoadBalancerUpdated(), nil
	default:
		return provider.LoadBalancerReady(ingressSent(got.status)...), nil
	}
}

func (l *loadBalancers) EnsureLoadBalancer(ctx context.Context, sent *v1.Service, targets *provider.Targets) (answer *v1.LoadBalancerAnswer, failed error) {
	defer l.addEffects(sent, &answer, &failed)
	nodes := l.memory.targets.nodesOf(targets)
	status, err := callAbout(l, ctx, sent, targets.Nodes(), "EnsureLoadBalancer", "ensure "+l.goalOf(sent, targets),
		func(ctx context.Context, cloud cloudprovider.LoadBalancer, service *corev1.Service) (*corev1.LoadBalancerStatus, error) {
			return cloud.EnsureLoadBalancer(ctx, clusterName(ctx), service, nodes)
		})
	switch {
	case errors.Is(err, cloudprovider.ImplementedElsewhere):
		return provider.LoadBalancerNotManaged(), nil
	case err != nil:
		return l.unfinished(err)
	case status == nil:
		return nil, l.classify.asError(errNoStatus)
	default: // upstream writes an empty status as it is: clouds leave the address to another program
		answer := provider.LoadBalancerReady(ingressSent(status)...)
		answer.AddressElsewhere = len(status.Ingress) == 0
		return answer, nil
	}
}

func (l *loadBalancers) UpdateLoadBalancerNodes(ctx context.Context, sent *v1.Service, targets *provider.Targets) (answer *v1.LoadBalancerAnswer, failed error) {
	defer l.addEffects(sent, &answer, &failed)
	nodes := l.memory.targets.nodesOf(targets)
	exists, err := callAbout(l, ctx, sent, targets.Nodes(), "UpdateLoadBalancer", "update "+l.goalOf(sent, targets),
		func(ctx context.Context, cloud cloudprovider.LoadBalancer, service *corev1.Service) (bool, error) {
			failed := cloud.UpdateLoadBalancer(ctx, clusterName(ctx), service, nodes)
			var retry *api.RetryError
			switch {
			case failed == nil || errors.Is(failed, cloudprovider.ImplementedElsewhere):
				return true, nil // upstream takes both as success: another controller brings the targets
			case errors.As(failed, &retry):
				return true, failed
			}
			// Clouds differ in the error of one that is not there; all can be asked whether it is.
			_, exists, err := cloud.GetLoadBalancer(ctx, clusterName(ctx), service)
			if err != nil || exists {
				return true, failed
			}
			return false, nil
		})
	switch {
	case err != nil:
		return l.unfinished(err)
	case !exists:
		return provider.LoadBalancerAbsent(), nil
	default:
		return provider.LoadBalancerUpdated(), nil
	}
}

func (l *loadBalancers) DeleteLoadBalancer(ctx context.Context, sent *v1.Service) (answer *v1.LoadBalancerAnswer, failed error) {
	defer l.addEffects(sent, &answer, &failed)
	// Without a Get before it: the interface promises success where nothing is left, and a Get may miss
	// what is left of one that is half deleted.
	_, err := callAbout(l, ctx, sent, nil, "EnsureLoadBalancerDeleted", "delete",
		func(ctx context.Context, cloud cloudprovider.LoadBalancer, service *corev1.Service) (struct{}, error) {
			return struct{}{}, cloud.EnsureLoadBalancerDeleted(ctx, clusterName(ctx), service)
		})
	switch {
	case errors.Is(err, cloudprovider.ImplementedElsewhere):
		return provider.LoadBalancerNotManaged(), nil
	case err != nil:
		return l.unfinished(err)
	default:
		l.memory.forget(pathOf(sent))
		return provider.LoadBalancerAbsent(), nil
	}
}

// unfinished is the answer of a call that goes on, or that the cloud wants to be repeated after a fixed
// time; any other error stays one.
func (l *loadBalancers) unfinished(err error) (*v1.LoadBalancerAnswer, error) {
	var running *stillRunning
	var retry *api.RetryError
	switch {
	case errors.As(err, &running):
		answer := provider.LoadBalancerInProgress(askAgain)
		answer.Message = running.text
		return answer, nil
	case errors.As(err, &retry):
		answer := provider.LoadBalancerInProgress(retry.RetryAfter())
		answer.Message = err.Error()
		return answer, nil
	default:
		return nil, l.classify.asError(err)
	}
}

// callAbout runs a call of the cloud about a Service through the bridge. Its writes to the Service meanwhile become effects.
func callAbout[T any](l *loadBalancers, ctx context.Context, sent *v1.Service, nodes []*v1.Node, method, goal string,
	work func(context.Context, cloudprovider.LoadBalancer, *corev1.Service) (T, error),
) (T, error) {
	return through(l.bridge, ctx, key(sent), method+" of "+name(sent), goal, func(ctx context.Context) (result T, err error) {
		defer func() { err = about(err, sent, nodes) }()
		cloud, err := l.cloud.get()
		if err != nil {
			return *new(T), err
		}
		service := serviceOf(sent)
		if err := l.options.translate(ctx, method, service, sent.LoadBalancerOptions); err != nil {
			return *new(T), err
		}
		defer l.memory.hold(pathOf(sent))()
		l.memory.sawService(service)
		return work(ctx, cloud, service)
	})
}

// addEffects adds to an answer or error what the cloud has written to its Service since the last one. It is to be deferred.
func (l *loadBalancers) addEffects(sent *v1.Service, answer **v1.LoadBalancerAnswer, failed *error) {
	if *failed == nil {
		(*answer).Effects = l.memory.take(pathOf(sent), answerEffectBytes)
		return
	}
	*failed = l.memory.failed(pathOf(sent), *failed)
}

func pathOf(sent *v1.Service) string { return servicePath(sent.Namespace, sent.Name) }

func clusterName(ctx context.Context) string { return provider.CallOf(ctx).Cluster.Name }

func key(service *v1.Service) string { return "service/" + service.Uid }

func name(service *v1.Service) string { return service.Namespace + "/" + service.Name }

// goalOf names what a call asks for: the fields of the Service whose change leads to one, and the targets.
func (l *loadBalancers) goalOf(service *v1.Service, targets *provider.Targets) string {
	desired := proto.CloneOf(service)
	desired.Labels, desired.DeletionTime, desired.Status = nil, nil, nil
	maps.DeleteFunc(desired.Annotations, func(key, _ string) bool { return hasPrefix(key, l.written) })
	request := &v1.EnsureLoadBalancerRequest{Service: desired, Targets: &v1.NodeTargets{
		Targets: &v1.NodeTargets_Ref{Ref: &v1.NodeSetRef{Revision: targets.Revision()}},
	}}
	if targets.Revision() == "" {
		inline := &v1.InlineNodes{}
		for _, node := range targets.Nodes() {
			inline.Nodes = append(inline.Nodes, &v1.Node{
				Name: node.Name, ProviderId: node.ProviderId, Addresses: node.Addresses, PodCidrs: node.PodCidrs,
			})
		}
		request.Targets.Targets = &v1.NodeTargets_Inline{Inline: inline}
	}
	encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(request)
	if err != nil {
		return rand.Text() // A message that arrived can be sent, so this does not happen; no two goals are equal then.
	}
	return fmt.Sprintf("%x", sha256.Sum256(encoded))
}
