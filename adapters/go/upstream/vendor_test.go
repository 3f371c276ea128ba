package upstream

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/cli/flag"
	controllermanager "k8s.io/controller-manager/app"
	"k8s.io/controller-manager/controller"
	"k8s.io/klog/v2"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/serve"
)

// This file is a vendor's cloud-controller-manager, as the published ones are written: flags of its own, a client and an
// informer without which its answers fail, an annotation that Ensure writes, and a controller of its own.

const (
	// asVendor has this program be the vendor's.
	asVendor = "RUN_AS_VENDOR"
	// ofSilence is another value of silence.
	ofSilence = "CONTROLLER_SILENCE"
	// balancerID is where Ensure notes what it made.
	balancerID = "example.test/load-balancer-id"
	// taggedBy is where the vendor's controller notes which process tagged a Node.
	taggedBy = "example.test/tagged-by"
	// slowService has Ensure take some seconds.
	slowService = "example.test/slow"
)

var region string

func vendorMain() {
	if text := os.Getenv(ofSilence); text != "" {
		shorter, err := time.ParseDuration(text)
		if err != nil {
			klog.Fatal(err)
		}
		silence = shorter
	}
	opts, err := options.NewCloudControllerManagerOptions()
	if err != nil {
		klog.Fatalf("unable to initialize command options: %v", err)
	}
	controllerInitializers := With(serve.Options{Effects: &v1.EffectsCapability{ServiceAnnotationPrefixes: []string{"example.test/"}}})
	controllerInitializers["example-tagger"] = app.ControllerInitFuncConstructor{
		InitContext: app.ControllerInitContext{ClientName: "example-tagger"}, Constructor: newTagger,
	}
	fss := flag.NamedFlagSets{}
	fss.FlagSet("example").StringVar(&region, "example-region", "", "Region of the machines.")
	command := app.NewCloudControllerManagerCommand(opts, initializeCloud, controllerInitializers, names.CCMControllerAliases(),
		fss, wait.NeverStop)
	os.Exit(cli.Run(command))
}

func initializeCloud(settings *config.CompletedConfig) cloudprovider.Interface {
	if name := settings.ComponentConfig.KubeCloudShared.CloudProvider.Name; name != "example" {
		klog.Fatalf("unknown cloud provider %s", name)
	}
	return &exampleCloud{}
}

// exampleCloud has a machine of each name.
type exampleCloud struct {
	client kubernetes.Interface
	nodes  cache.SharedIndexInformer
}

func (c *exampleCloud) Initialize(builder cloudprovider.ControllerClientBuilder, _ <-chan struct{}) {
	c.client = builder.ClientOrDie("example")
}

func (c *exampleCloud) SetInformers(factory informers.SharedInformerFactory) {
	c.nodes = factory.Core().V1().Nodes().Informer()
}

func (c *exampleCloud) ProviderName() string { return "example" }
func (c *exampleCloud) HasClusterID() bool   { return true }

func (c *exampleCloud) Instances() (cloudprovider.Instances, bool)     { return nil, false }
func (c *exampleCloud) InstancesV2() (cloudprovider.InstancesV2, bool) { return c, true }
func (c *exampleCloud) Zones() (cloudprovider.Zones, bool)             { return nil, false }
func (c *exampleCloud) Clusters() (cloudprovider.Clusters, bool)       { return nil, false }
func (c *exampleCloud) Routes() (cloudprovider.Routes, bool)           { return nil, false }

func (c *exampleCloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return c, true }

func (c *exampleCloud) InstanceExists(context.Context, *corev1.Node) (bool, error) { return true, nil }
func (c *exampleCloud) InstanceShutdown(context.Context, *corev1.Node) (bool, error) {
	return false, nil
}

func (c *exampleCloud) InstanceMetadata(_ context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	if !c.nodes.HasSynced() {
		return nil, errors.New("the vendor's informer has not synced")
	}
	return &cloudprovider.InstanceMetadata{
		ProviderID: "example://" + node.Name, Region: region,
		NodeAddresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}},
	}, nil
}

func (c *exampleCloud) GetLoadBalancer(_ context.Context, _ string, service *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	return balancer(), service.Annotations[balancerID] != "", nil
}

func (c *exampleCloud) GetLoadBalancerName(_ context.Context, _ string, service *corev1.Service) string {
	return string(service.UID)
}

func (c *exampleCloud) EnsureLoadBalancer(ctx context.Context, _ string, service *corev1.Service, _ []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	if service.Annotations[slowService] != "" {
		fmt.Println("the slow load balancer is begun")
		time.Sleep(3 * time.Second)
	}
	_, err := c.client.CoreV1().Services(service.Namespace).Patch(ctx, service.Name, types.MergePatchType,
		annotation(balancerID, string(service.UID)), metav1.PatchOptions{})
	return balancer(), err
}

func (c *exampleCloud) UpdateLoadBalancer(context.Context, string, *corev1.Service, []*corev1.Node) error {
	return nil
}

func (c *exampleCloud) EnsureLoadBalancerDeleted(context.Context, string, *corev1.Service) error {
	return nil
}

func balancer() *corev1.LoadBalancerStatus {
	return &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "203.0.113.1"}}}
}

func annotation(key, value string) (patch []byte) {
	return fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, key, value)
}

// newTagger is the vendor's own controller: it notes on each Node which process has seen it.
func newTagger(initContext app.ControllerInitContext, settings *config.CompletedConfig, _ cloudprovider.Interface) app.InitFunc {
	return func(ctx context.Context, controllerContext controllermanager.ControllerContext) (controller.Interface, bool, error) {
		client := settings.ClientBuilder.ClientOrDie(initContext.ClientName)
		tag := func(object any) {
			node, ok := object.(*corev1.Node)
			if !ok || node.Annotations[taggedBy] != "" {
				return
			}
			_, err := client.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType,
				annotation(taggedBy, fmt.Sprint(os.Getpid())), metav1.PatchOptions{})
			if err != nil {
				klog.ErrorS(err, "cannot tag", "node", node.Name)
			}
		}
		_, err := controllerContext.InformerFactory.Core().V1().Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: tag})
		return nil, true, err
	}
}
