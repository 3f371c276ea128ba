// This file runs the provider over a fake cloud, as a controller sees it.

package main

import (
	"context"
	"flag"
	"log/slog"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
	"outrigger.dev/providers/digitalocean/internal/fakecloud"
	"outrigger.dev/providers/digitalocean/internal/instances"
)

const (
	clusterUID = "6a1c0d3e-0000-4000-8000-000000000001"
	serviceUID = "9b2f1e4d-0000-4000-8000-000000000002"
	firstName  = "a9b2f1e4d000040008000000000000002"
)

// TestMain keeps log lines out of the output, unless -v asks for them.
func TestMain(m *testing.M) {
	flag.Parse()
	if !testing.Verbose() {
		slog.SetDefault(slog.New(slog.DiscardHandler))
	}
	os.Exit(m.Run())
}

const patience = 10 * time.Second

// rig is the provider as main makes it, on a socket, over a fake cloud.
type rig struct {
	*testing.T
	cloud     *fakecloud.Cloud
	provider  *provider.Provider
	tokenFile string
	url       string
	ctx       context.Context
	call      *v1.CallContext
	instances v1.InstancesServiceClient
	balancers v1.LoadBalancersServiceClient
}

func newRig(t *testing.T, change ...func(*settings)) *rig {
	t.Helper()
	cloud := fakecloud.New("first")
	cloud.Freeze()
	server := httptest.NewServer(cloud)
	t.Cleanup(server.Close)
	return rigOn(t, cloud, server.URL, change...)
}

func rigOn(t *testing.T, cloud *fakecloud.Cloud, url string, change ...func(*settings)) *rig {
	t.Helper()
	tokenFile := filepath.Join(t.TempDir(), "token")
	r := &rig{T: t, cloud: cloud, tokenFile: tokenFile, url: url}
	r.writeToken("first")
	settings := settings{
		tokenFile: tokenFile, apiURL: url, region: "nyc3", families: instances.IPv4, defaultType: "REGIONAL_NETWORK",
	}
	for _, change := range change {
		change(&settings)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	made, err := settings.provider(ctx)
	if err != nil {
		t.Fatal(err)
	}
	r.provider = made
	// Once the first look at the API is over, a test knows each request.
	until(t, "the first look at the API", func() bool { return made.Status().Dependencies[0].LastSuccess != nil })
	r.serve(ctx)
	cloud.TakeCalls()
	return r
}

func (r *rig) serve(ctx context.Context) {
	r.Helper()
	directory, err := os.MkdirTemp("", "outrigger")
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = os.RemoveAll(directory) })
	endpoint, err := provider.ParseEndpoint("unix://" + filepath.Join(directory, "run", "p.sock"))
	if err != nil {
		r.Fatal(err)
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- r.provider.ServeUntil(ctx, endpoint) }()
	until(r.T, "the socket", func() bool { _, err := os.Stat(endpoint.Path()); return err == nil })
	client, err := grpc.NewClient("passthrough:///localhost",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", endpoint.Path())
		}))
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() {
		_ = client.Close()
		stop()
		if err := <-ended; err != nil {
			r.Error(err)
		}
	})
	calls, cancel := context.WithTimeout(ctx, 2*time.Minute)
	r.Cleanup(cancel)
	r.ctx = calls
	r.call = &v1.CallContext{RequestId: "test", ClusterName: "test", ClusterUid: clusterUID}
	r.instances, r.balancers = v1.NewInstancesServiceClient(client), v1.NewLoadBalancersServiceClient(client)
	offered, err := v1.NewProviderServiceClient(client).Handshake(calls, &v1.HandshakeRequest{
		MinMinor: 1, MaxMinor: 1, Cluster: &v1.ClusterInfo{Name: "test", Uid: clusterUID},
	})
	if err != nil || len(offered.RateLimits) != 1 || offered.RateLimits[0].CallClass != v1.CallClass_CALL_CLASS_INSTANCES {
		r.Fatal("lookups of Nodes that are changed again and again have no limit", offered, err)
	}
}

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func (r *rig) writeToken(token string) {
	r.Helper()
	if err := os.WriteFile(r.tokenFile, []byte(token+"\n"), 0o600); err != nil {
		r.Fatal(err)
	}
}

func node(name string, droplet int) *v1.Node {
	made := &v1.Node{Name: name, Uid: name + "-uid"}
	if droplet != 0 {
		made.ProviderId = instances.ProviderIDPrefix + strconv.Itoa(droplet)
	}
	return made
}

func (r *rig) lookup(nodes ...*v1.Node) (map[string]*v1.InstanceResult, error) {
	response, err := r.instances.BatchGetInstances(r.ctx, &v1.BatchGetInstancesRequest{Context: r.call, Items: nodes})
	results := map[string]*v1.InstanceResult{}
	for _, result := range response.GetResults() {
		results[result.Key] = result
	}
	return results, err
}

func (r *rig) mustLookup(nodes ...*v1.Node) map[string]*v1.InstanceResult {
	r.Helper()
	results, err := r.lookup(nodes...)
	if err != nil {
		r.Fatal(err)
	}
	return results
}

// lookupError is that of the call or of the single node in it.
func (r *rig) lookupError(node *v1.Node) error {
	results, err := r.lookup(node)
	if err != nil {
		return err
	}
	if failed := results[node.Name].GetError(); failed != nil {
		return status.FromProto(failed).Err()
	}
	return nil
}

func isAbsent(result *v1.InstanceResult) bool {
	return result.GetAbsent().GetCertainty() == v1.AbsenceCertainty_ABSENCE_CERTAINTY_CONFIRMED
}

// service is one that forwards HTTP as it comes; annotations without their prefix.
func service(annotations map[string]string) *v1.Service {
	made := &v1.Service{
		Namespace: "default", Name: "web", Uid: serviceUID, Type: "LoadBalancer",
		Ports:                 []*v1.ServicePort{{Name: "http", Protocol: "TCP", Port: 80, NodePort: 30080, TargetPort: "8080"}},
		ExternalTrafficPolicy: "Cluster", SessionAffinity: "None", IpFamilies: []string{"IPv4"},
		IpFamilyPolicy: "SingleStack", Annotations: map[string]string{},
	}
	for key, value := range annotations {
		made.Annotations["service.beta.kubernetes.io/do-loadbalancer-"+key] = value
	}
	return made
}

func targets(nodes []*v1.Node) *v1.NodeTargets {
	return &v1.NodeTargets{Targets: &v1.NodeTargets_Inline{Inline: &v1.InlineNodes{Nodes: nodes}}}
}

func (r *rig) ensure(service *v1.Service, nodes ...*v1.Node) (*v1.LoadBalancerAnswer, error) {
	response, err := r.balancers.EnsureLoadBalancer(r.ctx, &v1.EnsureLoadBalancerRequest{
		Context: r.call, Service: service, Targets: targets(nodes),
	})
	return response.GetAnswer(), err
}

func (r *rig) get(service *v1.Service, nodes ...*v1.Node) (*v1.LoadBalancerAnswer, error) {
	response, err := r.balancers.GetLoadBalancer(r.ctx, &v1.GetLoadBalancerRequest{
		Context: r.call, Service: service, Targets: targets(nodes),
	})
	return response.GetAnswer(), err
}

func (r *rig) update(service *v1.Service, nodes ...*v1.Node) (*v1.LoadBalancerAnswer, error) {
	response, err := r.balancers.UpdateLoadBalancerNodes(r.ctx, &v1.UpdateLoadBalancerNodesRequest{
		Context: r.call, Service: service, Targets: targets(nodes),
	})
	return response.GetAnswer(), err
}

func (r *rig) remove(service *v1.Service) (*v1.LoadBalancerAnswer, error) {
	response, err := r.balancers.DeleteLoadBalancer(r.ctx, &v1.DeleteLoadBalancerRequest{Context: r.call, Service: service})
	return response.GetAnswer(), err
}

const (
	ready      = v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_READY
	inProgress = v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_IN_PROGRESS
	notManaged = v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_NOT_MANAGED
	absent     = v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_ABSENT
	retained   = v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_RETAINED
	differs    = v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_DIFFERS
)

// want fails unless the answer has the disposition and there is no error.
func (r *rig) want(want v1.LoadBalancerDisposition) func(*v1.LoadBalancerAnswer, error) *v1.LoadBalancerAnswer {
	return func(answer *v1.LoadBalancerAnswer, err error) *v1.LoadBalancerAnswer {
		r.Helper()
		if err != nil || answer.GetDisposition() != want {
			r.Fatalf("answer %v, error %v; want %v", answer, err, want)
		}
		return answer
	}
}

// wantReason fails unless the error has the reason, and returns the time that it names to call again.
func (r *rig) wantReason(err error, want provider.Reason) (retryAfter time.Duration) {
	r.Helper()
	reason := ""
	for _, detail := range status.Convert(err).Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			reason = detail.Reason
		case *errdetails.RetryInfo:
			retryAfter = detail.RetryDelay.AsDuration()
		}
	}
	if "ERROR_REASON_"+reason != want.String() {
		r.Fatalf("the error is %v with reason %q, want %v", err, reason, want)
	}
	return retryAfter
}

// only is the single load balancer of the cloud.
func (r *rig) only() map[string]any {
	r.Helper()
	all := r.cloud.LoadBalancers()
	if len(all) != 1 {
		r.Fatalf("there are %d load balancers, want one", len(all))
	}
	return all[0]
}
