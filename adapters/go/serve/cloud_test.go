// This file has the cloud of the tests, and tests the start of a provider, with its flags and options.

package serve

import (
	"context"
	"errors"
	"flag"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/fake"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
)

const patience = 10 * time.Second

// cloud is one that a test scripts: what is nil is not supported.
type cloud struct {
	machines   cloudprovider.InstancesV2
	old        cloudprovider.Instances
	zones      cloudprovider.Zones
	balancers  cloudprovider.LoadBalancer
	table      cloudprovider.Routes
	labels     func(*corev1.PersistentVolume) (map[string]string, error)
	initialize func(cloudprovider.ControllerClientBuilder, <-chan struct{})
	informers  func(informers.SharedInformerFactory)
}

func (c *cloud) Initialize(builder cloudprovider.ControllerClientBuilder, stop <-chan struct{}) {
	if c.initialize != nil {
		c.initialize(builder, stop)
	}
}

func (c *cloud) SetInformers(factory informers.SharedInformerFactory) {
	if c.informers != nil {
		c.informers(factory)
	}
}

func (c *cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	return c.balancers, c.balancers != nil
}

func (c *cloud) Instances() (cloudprovider.Instances, bool) { return c.old, c.old != nil }

func (c *cloud) Zones() (cloudprovider.Zones, bool) { return c.zones, c.zones != nil }

func (c *cloud) Clusters() (cloudprovider.Clusters, bool) { return nil, false }

func (c *cloud) Routes() (cloudprovider.Routes, bool) { return c.table, c.table != nil }

func (c *cloud) ProviderName() string { return "test" }

func (c *cloud) HasClusterID() bool { return true }

func (c *cloud) InstancesV2() (cloudprovider.InstancesV2, bool) { return c.machines, c.machines != nil }

func (c *cloud) GetLabelsForVolume(_ context.Context, volume *corev1.PersistentVolume) (map[string]string, error) {
	return c.labels(volume)
}

// serving is a cloud behind a socket, and a client that has shaken hands.
func serving(t *testing.T, options Options, c *cloud) (*grpc.ClientConn, *v1.HandshakeResponse) {
	t.Helper()
	return servingMade(t, func(ctx context.Context) (*provider.Provider, error) {
		return New(ctx, options, func() (cloudprovider.Interface, error) { return c, nil })
	})
}

// servingMade is a provider behind a socket, and a client that has shaken hands.
func servingMade(t *testing.T, build func(context.Context) (*provider.Provider, error)) (*grpc.ClientConn, *v1.HandshakeResponse) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	made, err := build(ctx)
	if err != nil {
		t.Fatal(err)
	}
	directory, err := os.MkdirTemp("", "outrigger")
	if err != nil {
		t.Fatal(err)
	}
	endpoint, err := provider.ParseEndpoint("unix://" + filepath.Join(directory, "p.sock"))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- made.ServeUntil(ctx, endpoint) }()
	client, err := grpc.NewClient("passthrough:///localhost",
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.WaitForReady(true)),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", endpoint.Path())
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client.Close()
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(patience):
			t.Error("the server did not end")
		}
		_ = os.RemoveAll(directory)
	})
	until(t, "the socket", func() bool { _, err := os.Stat(endpoint.Path()); return err == nil })
	got, err := v1.NewProviderServiceClient(client).Handshake(t.Context(), &v1.HandshakeRequest{
		MinMinor: 1, MaxMinor: 1, Cluster: &v1.ClusterInfo{Name: "c", Uid: "u"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return client, got
}

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func attempt() *v1.CallContext { return &v1.CallContext{RequestId: "r", ClusterName: "c"} }

func reasonIn(t *testing.T, got *rpcstatus.Status) string {
	t.Helper()
	for _, detail := range got.GetDetails() {
		info := &errdetails.ErrorInfo{}
		if detail.MessageIs(info) {
			if err := detail.UnmarshalTo(info); err != nil {
				t.Fatal(err)
			}
			return info.Reason
		}
	}
	return ""
}

func TestCapabilitiesAreThoseOfTheCloud(t *testing.T) {
	_, got := serving(t, Options{}, &cloud{})
	if offered := got.Capabilities; offered.Instances != nil || offered.LoadBalancers != nil || offered.Routes != nil ||
		offered.Volumes != nil {
		t.Error(offered)
	}
	_, got = serving(t, Options{Volumes: &v1.VolumesCapability{CsiDrivers: []string{"csi.test"}}}, &cloud{
		machines: &machine{}, balancers: &balancers{}, table: &table{},
	})
	offered := got.Capabilities
	if offered.GetInstances().GetProviderIdPrefixes()[0] != "test://" || offered.GetLoadBalancers().GetMaxInFlight() != 1 ||
		offered.GetLoadBalancers().GetConfigurationRevision() == "" || offered.GetRoutes() == nil ||
		offered.GetNodeSets() == nil || offered.GetVolumes().GetCsiDrivers()[0] != "csi.test" ||
		got.NodeAnnotationPrefixes[0] != "*" || got.ProviderName != "test" {
		t.Error(got)
	}
}

// Another version of a vendor's module has its load balancers ensured again, whatever main it is built into.
func TestTheVersionIsThatOfTheCloudsModule(t *testing.T) {
	info := &debug.BuildInfo{
		Main:     debug.Module{Path: "example.com/main", Version: "(devel)"},
		Deps:     []*debug.Module{{Path: "example.com/cloud", Version: "v1.37.0"}, {Path: "example.com/cloud-too", Version: "v2.0.0"}},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "commit"}},
	}
	for path, version := range map[string]string{
		"example.com/cloud/v1": "v1.37.0", "example.com/cloud": "v1.37.0", "example.com/cloud-too/v1": "v2.0.0", "main": "commit",
	} {
		if is := versionOf(path, info); is != version {
			t.Errorf("%s: %q", path, is)
		}
	}
	if path := packageOf(reflect.TypeOf(&fake.Cloud{})); path != "k8s.io/cloud-provider/fake" {
		t.Error(path)
	}
}

// Upstream's controller ensures every load balancer at its start; Outrigger's does where the configuration is another one.
func TestAnotherConfigurationIsAnotherRevision(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cloud.conf")
	revision := func(version, content string) string {
		t.Helper()
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return configurationRevision(version, path)
	}
	first := revision("1", "a")
	t.Setenv("POD_IP", "10.0.0.1")
	t.Setenv("OTHER_SERVICE_PORT_HTTPS", "443")
	t.Setenv("OTHER_PORT_443_TCP_ADDR", "10.0.0.2")
	if revision("1", "a") != first {
		t.Error("the same configuration has two revisions")
	}
	if revision("2", "a") == first || revision("1", "b") == first {
		t.Error("another version or cloud config has the same revision")
	}
	t.Setenv("CLOUD_HEALTH_CHECK_INTERVAL", "33s")
	if of := revision("1", "a"); of == first {
		t.Error("another environment has the same revision")
	}
	defer func(args []string) { os.Args = args }(os.Args)
	os.Args = append(os.Args, "--example-region=elsewhere")
	if lines := logged(t); revision(unknownVersion, "a") == first || !strings.Contains(lines(), "Options.Version") {
		t.Error(lines())
	}
}

func TestAFactoryThatFailsSaysWhy(t *testing.T) {
	for why, factory := range map[string]Factory{
		"no region":                             func() (cloudprovider.Interface, error) { return nil, errors.New("no region") },
		"neither":                               func() (cloudprovider.Interface, error) { return nil, nil },
		"panicked":                              func() (cloudprovider.Interface, error) { panic("oh") },
		"no cloud provider \"x\" is registered": Registered("x"),
	} {
		if _, err := New(t.Context(), Options{}, factory); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", why, err)
		}
	}
}

func TestAVendorsFlagsAreBesideThoseOfTheAdapter(t *testing.T) {
	defer func() { set = flags{} }()
	flags := flag.NewFlagSet("provider", flag.ContinueOnError)
	region := ""
	Options{Flags: func(flags *flag.FlagSet) { flags.StringVar(&region, "region", "", "") }}.register(flags)
	err := flags.Parse([]string{"--region=eu", "--cloud-config=c", "--kubeconfig=k", "--in-cluster", "-v=4"})
	if err != nil || region != "eu" || CloudConfig() != "c" || Kubeconfig() != "k" || !set.inCluster || set.verbosity != 4 {
		t.Error(err, region, set)
	}
}

func TestTheRightsOfAProviderAreNamedOnce(t *testing.T) {
	for why, given := range map[string]flags{
		"leave one out":           {kubeconfig: "k", inCluster: true},
		"cannot use --kubeconfig": {kubeconfig: filepath.Join(t.TempDir(), "none")},
		"cannot use --in-cluster": {inCluster: true}, // this is no Pod
	} {
		if _, err := given.rights(); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", why, err)
		}
	}
}

func TestOptionsMayFollowFromFlags(t *testing.T) {
	keys := []string{"rack"}
	options := Options{AfterFlags: func(options *Options) { options.TargetLabelKeys = keys }}
	_, got := serving(t, options, &cloud{balancers: &balancers{}})
	declared := got.Capabilities.LoadBalancers
	if !slices.Equal(declared.TargetLabelKeys, keys) {
		t.Error(declared)
	}
}
