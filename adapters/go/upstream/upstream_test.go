package upstream

import (
	"context"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	cloudfake "k8s.io/cloud-provider/fake"
	managerconfig "k8s.io/controller-manager/config"
	"k8s.io/controller-manager/pkg/clientbuilder"

	"outrigger.dev/adapters/go/provider"
	"outrigger.dev/adapters/go/serve"
)

// TestMain is the main of the test vendor where a test starts this program again for it.
func TestMain(m *testing.M) {
	if os.Getenv(asVendor) != "" {
		vendorMain()
	}
	os.Exit(m.Run())
}

func flags(change func(*managerconfig.GenericControllerManagerConfiguration)) managerconfig.GenericControllerManagerConfiguration {
	flags := managerconfig.GenericControllerManagerConfiguration{Controllers: []string{"*"}}
	flags.LeaderElection.LeaderElect = true
	flags.LeaderElection.ResourceName = controllerLease
	change(&flags)
	return flags
}

func TestFlagsWithWhichNothingCouldBeServed(t *testing.T) {
	for _, row := range []struct {
		change  func(*managerconfig.GenericControllerManagerConfiguration)
		problem string
	}{
		{func(*managerconfig.GenericControllerManagerConfiguration) {}, "is that of Outrigger's controller"},
		{func(f *managerconfig.GenericControllerManagerConfiguration) { f.LeaderElection.LeaderElect = false }, ""},
		{func(f *managerconfig.GenericControllerManagerConfiguration) {
			f.LeaderElection.ResourceName = "example-provider"
		}, ""},
		{func(f *managerconfig.GenericControllerManagerConfiguration) {
			f.LeaderElection.LeaderElect, f.Controllers = false, []string{"example-tagger"}
		}, "leaves out outrigger-provider"},
		{func(f *managerconfig.GenericControllerManagerConfiguration) {
			f.LeaderElection.LeaderElect, f.Controllers = false, []string{"*", "-example-tagger"}
		}, ""},
	} {
		err := check(flags(row.change))
		if row.problem == "" && err != nil || row.problem != "" && (err == nil || !strings.Contains(err.Error(), row.problem)) {
			t.Errorf("%v: %v, want %q", flags(row.change), err, row.problem)
		}
	}
}

func TestMapHasNoneOfUpstreamsControllers(t *testing.T) {
	for name := range InitFuncConstructors {
		if name != ControllerName {
			t.Errorf("%s would work on the cluster beside Outrigger's controller", name)
		}
	}
	for name := range app.DefaultInitFuncConstructors {
		if _, both := InitFuncConstructors[name]; both {
			t.Errorf("%s is a name of upstream's", name)
		}
	}
}

func TestLeaderGivesWayOnlyAfterItsControllersSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gaveUp := make(chan time.Time, 1)
		start := time.Now()
		controllerAsks := whileAsked(silence, func() { gaveUp <- time.Now() })
		for range 10 { // a standby
			time.Sleep(time.Minute)
			controllerAsks()
		}
		if took := (<-gaveUp).Sub(start); took != 10*time.Minute+silence {
			t.Errorf("the leader gave way after %v", took)
		}
	})
}

// cluster is a fake API server whose first list of Nodes waits until listed is closed.
func cluster(t *testing.T) (settings *config.CompletedConfig, listed chan struct{}) {
	t.Helper()
	client, listed := fake.NewSimpleClientset(&corev1.Node{}), make(chan struct{})
	client.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		<-listed
		return false, nil, nil
	})
	factory := informers.NewSharedInformerFactory(client, 0)
	factory.Core().V1().Nodes().Informer() // as Initialize and SetInformers ask for it
	made := &config.Config{SharedInformers: factory, ClientBuilder: clientbuilder.SimpleControllerClientBuilder{}}
	made.ComponentConfig.Generic = flags(func(f *managerconfig.GenericControllerManagerConfiguration) {
		f.LeaderElection.LeaderElect = false
	})
	return made.Complete(), listed
}

// watchedCloud calls whenServed when it is about to be served.
type watchedCloud struct {
	cloudfake.Cloud
	whenServed func()
}

func (c *watchedCloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	c.whenServed()
	return c.Cloud.LoadBalancer()
}

func TestServesOnceInformersHaveSynced(t *testing.T) {
	settings, listed := cluster(t)
	nodes := settings.SharedInformers.Core().V1().Nodes().Informer()
	cloud := &watchedCloud{Cloud: cloudfake.Cloud{Provider: "fake"}, whenServed: func() {
		if !nodes.HasSynced() {
			t.Error("served before the informer had synced")
		}
	}}
	endpoint := "unix://" + t.TempDir() + "/s"
	t.Setenv(provider.EndpointEnv, endpoint)
	process, err := newSidecar(serve.Options{}, settings, cloud)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = process.serve(t.Context()) }()
	over := make(chan struct{})
	close(over)                                                     // for the state of each moment
	for len(settings.SharedInformers.WaitForCacheSync(over)) != 1 { // until the informer runs
		time.Sleep(time.Millisecond)
	}
	close(listed)
	deadline := time.Now().Add(time.Minute)
	for {
		if _, err = provider.Probe(process.endpoint, true, time.Second); err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

func TestAStopEndsTheWaitForInformers(t *testing.T) {
	settings, listed := cluster(t)
	defer close(listed)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := serve.AwaitInformers(ctx, settings.SharedInformers); err == nil || !strings.Contains(err.Error(), "*v1.Node") {
		t.Error(err)
	}
}

func TestEndpointThatIsNoSocketIsRefused(t *testing.T) {
	settings, _ := cluster(t)
	t.Setenv(provider.EndpointEnv, "tcp://127.0.0.1:1")
	if _, err := newSidecar(serve.Options{}, settings, &cloudfake.Cloud{}); err == nil {
		t.Error("taken")
	}
}
