package provider_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
)

const patience = 10 * time.Second

// cloud is a provider whose handlers a test sets.
type cloud struct {
	lookup func(context.Context, *v1.Node) (provider.Lookup, error)
	list   func(func(*v1.Instance) error) error
	ensure func(context.Context, *v1.Service, *provider.Targets) (*v1.LoadBalancerAnswer, error)
	update func(context.Context, *v1.Service, *provider.Targets) (*v1.LoadBalancerAnswer, error)
	routes func(context.Context, *v1.Route) (provider.RouteChange, error)
}

func (c *cloud) GetInstances(ctx context.Context, nodes []*v1.Node, _ provider.Query) (provider.Lookups, error) {
	return provider.LookupEach(ctx, 4, nodes, c.lookup)
}

func (c *cloud) ListInstances(_ context.Context, _ provider.Query, send func(*v1.Instance) error) error {
	return c.list(send)
}

func (c *cloud) GetLoadBalancer(context.Context, *v1.Service, *provider.Targets) (*v1.LoadBalancerAnswer, error) {
	return provider.LoadBalancerAbsent(), nil
}

func (c *cloud) EnsureLoadBalancer(ctx context.Context, service *v1.Service, targets *provider.Targets) (*v1.LoadBalancerAnswer, error) {
	return c.ensure(ctx, service, targets)
}

func (c *cloud) UpdateLoadBalancerNodes(ctx context.Context, service *v1.Service, targets *provider.Targets) (*v1.LoadBalancerAnswer, error) {
	return c.update(ctx, service, targets)
}

func (c *cloud) DeleteLoadBalancer(context.Context, *v1.Service) (*v1.LoadBalancerAnswer, error) {
	return provider.LoadBalancerReady(), nil // no answer to a deletion
}

func (c *cloud) ListRoutes(context.Context, func(*v1.Route) error) error { return nil }

func (c *cloud) CreateRoutes(ctx context.Context, routes []*v1.Route) (provider.RouteChanges, error) {
	return provider.ChangeEach(ctx, 4, routes, c.routes)
}

func (c *cloud) DeleteRoutes(ctx context.Context, routes []*v1.Route) (provider.RouteChanges, error) {
	return provider.ChangeEach(ctx, 4, routes, c.routes)
}

// served is a provider that serves, and a client of it.
type served struct {
	*testing.T
	endpoint provider.Endpoint
	client   *grpc.ClientConn
	stop     func() error
}

func endpointIn(t *testing.T) provider.Endpoint {
	t.Helper()
	directory, err := os.MkdirTemp("", "outrigger")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(directory) })
	endpoint, err := provider.ParseEndpoint("unix://" + filepath.Join(directory, "run", "p.sock"))
	if err != nil {
		t.Fatal(err)
	}
	return endpoint
}

func serve(t *testing.T, p *provider.Provider) *served {
	t.Helper()
	if p.Name == "" {
		p.Name, p.Version = "test", "1"
	}
	endpoint := endpointIn(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.ServeUntil(ctx, endpoint) }()
	client, err := grpc.NewClient("passthrough:///localhost",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", endpoint.Path())
		}))
	if err != nil {
		t.Fatal(err)
	}
	stop := sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-ended:
			return err
		case <-time.After(patience):
			return errors.New("the server did not end")
		}
	})
	t.Cleanup(func() {
		_ = client.Close()
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	until(t, "the socket", func() bool { _, err := os.Stat(endpoint.Path()); return err == nil })
	return &served{t, endpoint, client, stop}
}

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func (s *served) handshake() *v1.HandshakeResponse {
	s.Helper()
	told, err := v1.NewProviderServiceClient(s.client).Handshake(s.Context(), &v1.HandshakeRequest{
		MinMinor: 1, MaxMinor: 1, Cluster: &v1.ClusterInfo{Name: "c", Uid: "u"},
	})
	if err != nil {
		s.Fatal(err)
	}
	return told
}

func attempt() *v1.CallContext { return &v1.CallContext{RequestId: "r", ClusterName: "c"} }

func reasonOf(t *testing.T, err error) string {
	t.Helper()
	told := status.Convert(err).Proto()
	return reasonIn(t, told)
}

func reasonIn(t *testing.T, told *rpcstatus.Status) string {
	t.Helper()
	for _, detail := range told.GetDetails() {
		info := &errdetails.ErrorInfo{}
		if detail.MessageIs(info) {
			if err := detail.UnmarshalTo(info); err != nil || info.Domain != "cloudprovider.v1" {
				t.Fatalf("ErrorInfo %v: %v", info, err)
			}
			return info.Reason
		}
	}
	return ""
}

func TestCallsNeedAHandshakeAndAContext(t *testing.T) {
	s := serve(t, &provider.Provider{Instances: &cloud{}})
	instances := v1.NewInstancesServiceClient(s.client)
	request := &v1.BatchGetInstancesRequest{Context: attempt(), Nodes: []*v1.Node{{Name: "a"}}}
	_, err := instances.BatchGetInstances(t.Context(), request)
	if reason := reasonOf(t, err); reason != "NOT_HANDSHAKED" || status.Code(err) != codes.FailedPrecondition {
		t.Fatalf("%q: %v", reason, err)
	}
	s.handshake()
	for name, request := range map[string]*v1.BatchGetInstancesRequest{
		"INVALID_REQUEST": {Nodes: []*v1.Node{{Name: "a"}}},
		"NOT_HANDSHAKED":  {Context: &v1.CallContext{RequestId: "r", ClusterName: "other"}, Nodes: []*v1.Node{{Name: "a"}}},
	} {
		_, err := instances.BatchGetInstances(t.Context(), request)
		if reason := reasonOf(t, err); reason != name {
			t.Errorf("%s: %q: %v", name, reason, err)
		}
	}
	for _, nodes := range [][]*v1.Node{nil, {{}}, {{Name: "a"}, {Name: "a"}}, make([]*v1.Node, 101)} {
		_, err := instances.BatchGetInstances(t.Context(), &v1.BatchGetInstancesRequest{Context: attempt(), Nodes: nodes})
		if reason := reasonOf(t, err); reason != "INVALID_REQUEST" {
			t.Errorf("%v nodes: %q: %v", len(nodes), reason, err)
		}
	}
}

func TestCapabilitiesFollowFromWhatIsSet(t *testing.T) {
	told := serve(t, &provider.Provider{Instances: &cloud{}}).handshake()
	if offered := told.Capabilities; !offered.Instances.GetList() || offered.Instances.GetMaxBatchSize() != 100 ||
		offered.LoadBalancers != nil || offered.NodeSets != nil || told.Minor != 1 || told.BootId == "" {
		t.Fatal(told)
	}
	told = serve(t, &provider.Provider{LoadBalancers: &cloud{}}).handshake()
	if offered := told.Capabilities; offered.Instances != nil || offered.LoadBalancers == nil ||
		offered.LoadBalancers.List || offered.LoadBalancers.Plan || offered.NodeSets == nil {
		t.Fatal(told)
	}
}

func TestMethodsThatAreNotServedAreUnimplemented(t *testing.T) {
	s := serve(t, &provider.Provider{Instances: &cloud{}})
	s.handshake()
	_, err := v1.NewLoadBalancersServiceClient(s.client).GetLoadBalancer(t.Context(), &v1.GetLoadBalancerRequest{})
	if status.Code(err) != codes.Unimplemented || reasonOf(t, err) != "CAPABILITY_DISABLED" {
		t.Fatal(err)
	}
}

func TestVersionsAreNegotiated(t *testing.T) {
	s := serve(t, &provider.Provider{})
	client := v1.NewProviderServiceClient(s.client)
	for _, test := range []struct {
		least, most uint32
		reason      string
	}{{1, 1, ""}, {1, 9, ""}, {2, 9, "VERSION_UNSUPPORTED"}, {0, 1, "INVALID_REQUEST"}, {3, 2, "INVALID_REQUEST"}} {
		told, err := client.Handshake(t.Context(), &v1.HandshakeRequest{MinMinor: test.least, MaxMinor: test.most})
		if reason := reasonOf(t, err); reason != test.reason || (err == nil && told.Minor != 1) {
			t.Errorf("%d..%d: %v %v", test.least, test.most, told, err)
		}
	}
}

func TestALookupAnswersForEachNode(t *testing.T) {
	answers := map[string]func() (provider.Lookup, error){
		"found":   func() (provider.Lookup, error) { return provider.Found(&v1.Instance{ProviderId: "test://1"}), nil },
		"absent":  func() (provider.Lookup, error) { return provider.Absent(), nil },
		"stale":   func() (provider.Lookup, error) { return provider.AbsentSince(time.Hour), nil },
		"young":   func() (provider.Lookup, error) { return provider.NotVisibleYet(), nil },
		"foreign": func() (provider.Lookup, error) { return provider.NotManaged("no"), nil },
		"none":    func() (provider.Lookup, error) { return provider.Lookup{}, nil },
		"nil":     func() (provider.Lookup, error) { return provider.Found(nil), nil },
		"panics":  func() (provider.Lookup, error) { panic("secret") },
		"text":    func() (provider.Lookup, error) { return provider.Found(&v1.Instance{ProviderId: "\xff"}), nil },
		"wrapped": func() (provider.Lookup, error) {
			return provider.Lookup{}, fmt.Errorf("here: %w", provider.Errorf(provider.CloudError, "no"))
		},
	}
	s := serve(t, &provider.Provider{Instances: &cloud{
		lookup: func(_ context.Context, node *v1.Node) (provider.Lookup, error) { return answers[node.Name]() },
	}})
	s.handshake()
	request := &v1.BatchGetInstancesRequest{Context: attempt()}
	for name := range answers {
		request.Nodes = append(request.Nodes, &v1.Node{Name: name})
	}
	response, err := v1.NewInstancesServiceClient(s.client).BatchGetInstances(t.Context(), request)
	if err != nil || len(response.Results) != len(answers) {
		t.Fatal(response, err)
	}
	confirmed, young := v1.AbsenceCertainty_ABSENCE_CERTAINTY_CONFIRMED, v1.AbsenceCertainty_ABSENCE_CERTAINTY_NOT_VISIBLE_YET
	for _, result := range response.Results {
		failed := result.GetError()
		ok := false
		switch result.NodeName {
		case "found":
			ok = result.GetFound().GetProviderId() == "test://1"
		case "absent":
			ok = result.GetAbsent().GetCertainty() == confirmed
		case "stale", "young":
			ok = result.GetAbsent().GetCertainty() == young
		case "foreign":
			ok = result.GetNotManaged().GetReason() == "no"
		case "none", "nil", "text":
			ok = failed != nil && reasonIn(t, failed) == ""
		case "panics":
			ok = strings.Contains(failed.GetMessage(), "request id r") && !strings.Contains(failed.GetMessage(), "secret")
		case "wrapped":
			ok = reasonIn(t, failed) == "CLOUD_ERROR" && failed.Message == "here: no" && failed.Code == int32(codes.Internal)
		}
		if !ok {
			t.Errorf("%s: %v", result.NodeName, result)
		}
	}
}

func TestARateLimitEndsTheRestOfABatch(t *testing.T) {
	var mu sync.Mutex
	asked := 0
	s := serve(t, &provider.Provider{Instances: &cloud{
		lookup: func(context.Context, *v1.Node) (provider.Lookup, error) {
			mu.Lock()
			defer mu.Unlock()
			asked++
			return provider.Lookup{}, provider.RateLimitedFor(7*time.Second, errors.New("429"))
		},
	}})
	s.handshake()
	request := &v1.BatchGetInstancesRequest{Context: attempt()}
	for index := range 50 {
		request.Nodes = append(request.Nodes, &v1.Node{Name: fmt.Sprint(index)})
	}
	response, err := v1.NewInstancesServiceClient(s.client).BatchGetInstances(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	for _, result := range response.Results {
		if reasonIn(t, result.GetError()) != "RATE_LIMITED" || len(result.GetError().Details) != 2 {
			t.Fatal(result)
		}
	}
	if asked > 8 {
		t.Errorf("the cloud was asked %d times after it had limited the rate", asked)
	}
}

func TestAListIsWholeOnlyWithoutAnError(t *testing.T) {
	large := strings.Repeat("x", 700<<10)
	var failure error
	s := serve(t, &provider.Provider{Instances: &cloud{list: func(send func(*v1.Instance) error) error {
		for index := range 3 {
			if err := send(&v1.Instance{ProviderId: fmt.Sprint(index), Zone: large}); err != nil {
				return err
			}
		}
		return failure
	}}})
	s.handshake()
	list := func() (messages int, complete bool, err error) {
		stream, err := v1.NewInstancesServiceClient(s.client).ListInstances(t.Context(), &v1.ListInstancesRequest{Context: attempt()})
		for err == nil {
			var message *v1.ListInstancesResponse
			if message, err = stream.Recv(); err == nil {
				messages++
				complete = message.Complete
			}
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return messages, complete, err
	}
	if messages, complete, err := list(); messages != 3 || !complete || err != nil {
		t.Fatal(messages, complete, err)
	}
	failure = provider.Errorf(provider.CloudUnavailable, "away")
	if _, complete, err := list(); complete || reasonOf(t, err) != "CLOUD_UNAVAILABLE" {
		t.Fatal(complete, err)
	}
}

func TestAServiceIsChangedOnceAtATimeBeyondItsCaller(t *testing.T) {
	entered := make(chan context.Context)
	leave := map[string]chan struct{}{"1": make(chan struct{}), "2": make(chan struct{})}
	s := serve(t, &provider.Provider{LoadBalancers: &cloud{
		ensure: func(ctx context.Context, service *v1.Service, _ *provider.Targets) (*v1.LoadBalancerAnswer, error) {
			entered <- ctx
			<-leave[service.Uid]
			return provider.LoadBalancerReady(), nil
		},
	}})
	s.handshake()
	client := v1.NewLoadBalancersServiceClient(s.client)
	ensure := func(ctx context.Context, uid string) <-chan error {
		ended := make(chan error, 1)
		go func() {
			_, err := client.EnsureLoadBalancer(ctx, &v1.EnsureLoadBalancerRequest{
				Context: attempt(), Service: &v1.Service{Namespace: "n", Name: "s", Uid: uid},
				Targets: &v1.NodeTargets{Targets: &v1.NodeTargets_Inline{Inline: &v1.InlineNodes{}}},
			})
			ended <- err
		}()
		return ended
	}
	ctx, abandon := context.WithCancel(t.Context())
	first := ensure(ctx, "1")
	handler := <-entered
	abandon()
	if err := <-first; status.Code(err) != codes.Canceled {
		t.Fatal(err)
	}
	until(t, "Check to say that the caller is gone", func() bool { return provider.Check(handler) != nil })
	if handler.Err() != nil {
		t.Fatal("a cloud request in flight would have been cut off")
	}
	again := ensure(t.Context(), "1")
	other := ensure(t.Context(), "2")
	<-entered // the other Service is not held up; the same one would block here and fail below
	leave["2"] <- struct{}{}
	if err := <-other; err != nil {
		t.Fatal(err)
	}
	select {
	case <-entered:
		t.Fatal("two changes of one Service overlapped")
	case err := <-again:
		t.Fatal("the second change did not wait for the first", err)
	case leave["1"] <- struct{}{}:
	}
	<-entered
	leave["1"] <- struct{}{}
	if err := <-again; err != nil {
		t.Fatal(err)
	}
}

func TestAnswersThatAreNoneAreErrorsOfTheService(t *testing.T) {
	s := serve(t, &provider.Provider{LoadBalancers: &cloud{
		ensure: func(context.Context, *v1.Service, *provider.Targets) (*v1.LoadBalancerAnswer, error) { return nil, nil },
		update: func(_ context.Context, service *v1.Service, targets *provider.Targets) (*v1.LoadBalancerAnswer, error) {
			if service.Name == "panics" {
				panic("oh")
			}
			return provider.LoadBalancerUpdated(), nil
		},
	}})
	s.handshake()
	client := v1.NewLoadBalancersServiceClient(s.client)
	service := &v1.Service{Namespace: "n", Name: "s", Uid: "1"}
	none := &v1.NodeTargets{Targets: &v1.NodeTargets_Inline{Inline: &v1.InlineNodes{}}}
	_, err := client.EnsureLoadBalancer(t.Context(), &v1.EnsureLoadBalancerRequest{Context: attempt(), Service: service, Targets: none})
	if status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "neither an answer nor an error") {
		t.Fatal(err)
	}
	_, err = client.DeleteLoadBalancer(t.Context(), &v1.DeleteLoadBalancerRequest{Context: attempt(), Service: service})
	if status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "no answer to it") {
		t.Fatal(err)
	}
	stream, err := client.UpdateLoadBalancerNodes(t.Context(), &v1.UpdateLoadBalancerNodesRequest{
		Context: attempt(), Targets: none,
		Services: []*v1.Service{service, {Namespace: "n", Name: "panics", Uid: "2"}},
	})
	results := map[string]*v1.UpdateLoadBalancerNodesResponse{}
	for err == nil {
		var result *v1.UpdateLoadBalancerNodesResponse
		if result, err = stream.Recv(); err == nil {
			results[result.Service.Uid] = result
		}
	}
	if !errors.Is(err, io.EOF) || len(results) != 2 || results["1"].GetAnswer() == nil || results["2"].GetError() == nil {
		t.Fatal(results, err)
	}
}

func TestNodeSetsAreNamedByEnsure(t *testing.T) {
	seen := make(chan *provider.Targets, 1)
	s := serve(t, &provider.Provider{LoadBalancers: &cloud{
		ensure: func(_ context.Context, _ *v1.Service, targets *provider.Targets) (*v1.LoadBalancerAnswer, error) {
			seen <- targets
			return provider.LoadBalancerReady(), nil
		},
	}})
	s.handshake()
	ensure := func() error {
		_, err := v1.NewLoadBalancersServiceClient(s.client).EnsureLoadBalancer(t.Context(), &v1.EnsureLoadBalancerRequest{
			Context: attempt(), Service: &v1.Service{Namespace: "n", Name: "s", Uid: "1"},
			Targets: &v1.NodeTargets{Targets: &v1.NodeTargets_Ref{Ref: &v1.NodeSetRef{SetId: "s", Revision: "2"}}},
		})
		return err
	}
	if err := ensure(); reasonOf(t, err) != "NODE_SET_UNKNOWN" {
		t.Fatal(err)
	}
	begin := func(base, revision string, count uint32) *v1.SyncNodeSetRequest {
		return &v1.SyncNodeSetRequest{Part: &v1.SyncNodeSetRequest_Begin{Begin: &v1.NodeSetBegin{
			Context: attempt(), SetId: "s", BaseRevision: base, Revision: revision, NodeCount: count,
		}}}
	}
	chunk := func(removal string, upserts ...string) *v1.SyncNodeSetRequest {
		sent := &v1.NodeSetChunk{}
		for _, name := range upserts {
			sent.Upserts = append(sent.Upserts, &v1.Node{Name: name})
		}
		if removal != "" {
			sent.Removals = []string{removal}
		}
		return &v1.SyncNodeSetRequest{Part: &v1.SyncNodeSetRequest_Chunk{Chunk: sent}}
	}
	commit := func(count uint32) *v1.SyncNodeSetRequest {
		return &v1.SyncNodeSetRequest{Part: &v1.SyncNodeSetRequest_Commit{Commit: &v1.NodeSetCommit{ChangeCount: count}}}
	}
	for _, test := range []struct {
		name, reason string
		parts        []*v1.SyncNodeSetRequest
	}{
		{"no begin", "INVALID_REQUEST", []*v1.SyncNodeSetRequest{commit(0)}},
		{"no commit", "INVALID_REQUEST", []*v1.SyncNodeSetRequest{begin("", "1", 1), chunk("", "a")}},
		{"wrong count", "INVALID_REQUEST", []*v1.SyncNodeSetRequest{begin("", "1", 2), chunk("", "a"), commit(1)}},
		{"too many", "INVALID_REQUEST", []*v1.SyncNodeSetRequest{begin("", "1", 1), chunk("", "a", "b"), commit(2)}},
		{"twice", "INVALID_REQUEST", []*v1.SyncNodeSetRequest{begin("", "1", 2), chunk("", "a", "a"), commit(2)}},
		{"no base", "NODE_SET_BASE_MISMATCH", []*v1.SyncNodeSetRequest{begin("0", "1", 1), commit(0)}},
		{"snapshot", "", []*v1.SyncNodeSetRequest{begin("", "1", 2), chunk("", "b"), chunk("", "a"), commit(2)}},
		{"unknown removal", "INVALID_REQUEST", []*v1.SyncNodeSetRequest{begin("1", "2", 2), chunk("x"), commit(1)}},
		{"change lost", "INVALID_REQUEST", []*v1.SyncNodeSetRequest{begin("1", "2", 2), chunk("a"), commit(2)}},
		{"delta", "", []*v1.SyncNodeSetRequest{begin("1", "2", 2), chunk("a", "c"), commit(2)}},
	} {
		stream, err := v1.NewNodeSetsServiceClient(s.client).SyncNodeSet(t.Context())
		for _, part := range test.parts {
			if err == nil {
				err = stream.Send(part)
			}
		}
		if err == nil || errors.Is(err, io.EOF) {
			_, err = stream.CloseAndRecv()
		}
		if reason := reasonOf(t, err); reason != test.reason || (err != nil) != (test.reason != "") {
			t.Errorf("%s: %q: %v", test.name, reason, err)
		}
	}
	if err := ensure(); err != nil {
		t.Fatal(err)
	}
	targets := <-seen
	if nodes := targets.Nodes(); len(nodes) != 2 || nodes[0].Name != "b" || nodes[1].Name != "c" ||
		targets.Revision() != "2" || targets.Get("c") == nil || targets.Get("a") != nil {
		t.Fatal(targets.Nodes())
	}
}

func TestARouteIsChangedOnceAtATime(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	s := serve(t, &provider.Provider{Routes: &cloud{
		routes: func(_ context.Context, route *v1.Route) (provider.RouteChange, error) {
			if route.DestinationCidr == "10.0.0.0/24" {
				entered <- struct{}{}
				<-leave
			}
			return provider.RouteChange{Route: route}, nil
		},
	}})
	s.handshake()
	client := v1.NewRoutesServiceClient(s.client)
	create := func(cidrs ...string) ([]*v1.RouteResult, error) {
		request := &v1.BatchCreateRoutesRequest{Context: attempt()}
		for _, cidr := range cidrs {
			request.Routes = append(request.Routes, &v1.Route{DestinationCidr: cidr, NodeName: "a"})
		}
		response, err := client.BatchCreateRoutes(t.Context(), request)
		return response.GetResults(), err
	}
	for _, cidr := range []string{"", "x", "10.0.0.1/24"} {
		if _, err := create(cidr); reasonOf(t, err) != "INVALID_REQUEST" {
			t.Errorf("%q: %v", cidr, err)
		}
	}
	ended := make(chan error, 1)
	go func() { _, err := create("10.0.0.0/24"); ended <- err }()
	<-entered
	results, err := create("10.0.0.0/24", "10.0.1.0/24")
	if err != nil || len(results) != 2 {
		t.Fatal(results, err)
	}
	for _, result := range results {
		if busy := reasonIn(t, result.Status) == "OPERATION_IN_PROGRESS"; busy != (result.DestinationCidr == "10.0.0.0/24") {
			t.Error(result)
		}
	}
	leave <- struct{}{}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

func TestRequestsBeyondTheLimitAreInvalid(t *testing.T) {
	s := serve(t, &provider.Provider{Instances: &cloud{}, MaxMessageBytes: 1})
	if told := s.handshake(); told.MaxReceiveMessageBytes != 1<<20 {
		t.Fatal(told.MaxReceiveMessageBytes)
	}
	request := &v1.BatchGetInstancesRequest{Context: attempt(), Nodes: []*v1.Node{{Name: strings.Repeat("x", 1<<20)}}}
	_, err := v1.NewInstancesServiceClient(s.client).BatchGetInstances(t.Context(), request)
	if reasonOf(t, err) != "INVALID_REQUEST" || !strings.Contains(err.Error(), "larger") {
		t.Fatal(err)
	}
}

func TestTheSocketIsTheGroupsAndTakenOverOnlyWhenItIsStale(t *testing.T) {
	s := serve(t, &provider.Provider{})
	found, err := os.Stat(s.endpoint.Path())
	if err != nil || found.Mode().Perm() != 0o660 {
		t.Fatal(found.Mode(), err)
	}
	if directory, err := os.Stat(filepath.Dir(s.endpoint.Path())); err != nil || directory.Mode().Perm() != 0o770 {
		t.Fatal(directory.Mode(), err)
	}
	second := &provider.Provider{Name: "second"}
	if err := second.ServeUntil(t.Context(), s.endpoint); err == nil || !strings.Contains(err.Error(), "another process serves") {
		t.Fatal(err)
	}
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(s.endpoint.Path()); !errors.Is(err, os.ErrNotExist) {
		t.Fatal("the socket was left behind", err)
	}
	// A dead process leaves its file.
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: s.endpoint.Path()})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- second.ServeUntil(ctx, s.endpoint) }()
	until(t, "the stale socket to be taken over", func() bool {
		_, err := provider.Probe(s.endpoint, true, time.Second)
		return err == nil
	})
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.endpoint.Path(), []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := second.ServeUntil(t.Context(), s.endpoint); err == nil || !strings.Contains(err.Error(), "is not a socket") {
		t.Fatal(err)
	}
}

func TestADrainLetsCallsEndAndRefusesNewOnes(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	s := serve(t, &provider.Provider{Instances: &cloud{
		lookup: func(context.Context, *v1.Node) (provider.Lookup, error) {
			entered <- struct{}{}
			<-leave
			return provider.Absent(), nil
		},
	}})
	s.handshake()
	client := v1.NewInstancesServiceClient(s.client)
	request := &v1.BatchGetInstancesRequest{Context: attempt(), Nodes: []*v1.Node{{Name: "a"}}}
	ended := make(chan error, 1)
	go func() { _, err := client.BatchGetInstances(context.Background(), request); ended <- err }()
	<-entered
	stopped := make(chan error, 1)
	go func() { stopped <- s.stop() }()
	until(t, "new calls to be refused", func() bool {
		_, err := v1.NewProviderServiceClient(s.client).GetStatus(t.Context(), &v1.GetStatusRequest{})
		return err != nil && reasonOf(t, err) == "SHUTTING_DOWN"
	})
	told, err := grpc_health_v1.NewHealthClient(s.client).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil || told.Status != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
		t.Fatal(told, err)
	}
	close(leave)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
}

func TestAProbeTellsHowTheProviderIs(t *testing.T) {
	told := &v1.GetStatusResponse{}
	var mu sync.Mutex
	s := serve(t, &provider.Provider{Status: func() *v1.GetStatusResponse {
		mu.Lock()
		defer mu.Unlock()
		return proto.CloneOf(told)
	}})
	for _, test := range []struct {
		readiness   v1.Readiness
		alive, good bool
		word        string
	}{
		{v1.Readiness_READINESS_READY, true, true, "ready"},
		{v1.Readiness_READINESS_DEGRADED, true, true, "degraded: api (is slow)"},
		{v1.Readiness_READINESS_STARTING, true, false, "starting"},
		{v1.Readiness_READINESS_BROKEN, false, false, "broken"},
	} {
		mu.Lock()
		told.Readiness = test.readiness
		told.Dependencies = nil
		if test.readiness == v1.Readiness_READINESS_DEGRADED {
			told.Dependencies = []*v1.DependencyStatus{{Name: "api", Readiness: test.readiness, Message: "is slow"}}
		}
		mu.Unlock()
		for ready, want := range map[bool]bool{false: test.alive, true: test.good} {
			sentence, err := provider.Probe(s.endpoint, ready, patience)
			if err != nil {
				sentence = err.Error()
			}
			if (err == nil) != want || !strings.Contains(sentence, test.word) {
				t.Errorf("%v, ready %v: %q", test.readiness, ready, sentence)
			}
		}
	}
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := provider.Probe(s.endpoint, false, patience); err == nil || !strings.Contains(err.Error(), "no provider serves") {
		t.Fatal(err)
	}
}

func TestDeclarationsThatTheControllerWouldRefuseAreRefused(t *testing.T) {
	for why, wrong := range map[string]*provider.Provider{
		"is not legal":   {Name: "Cloud"},
		"max_batch_size": {Name: "a", Instances: &cloud{}, InstancesCapability: &v1.InstancesCapability{MaxBatchSize: 501}},
		"empty prefix":   {Name: "a", Instances: &cloud{}, InstancesCapability: &v1.InstancesCapability{ProviderIdPrefixes: []string{""}}},
		"no Service": {Name: "a", LoadBalancers: &cloud{}, LoadBalancersCapability: &v1.LoadBalancersCapability{
			WithoutDefaultClass: true,
		}},
		"visible": {Name: "a", NodeAnnotationPrefixes: []string{"a b"}},
	} {
		if err := wrong.ServeUntil(t.Context(), endpointIn(t)); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", why, err)
		}
	}
}
