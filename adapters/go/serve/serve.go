// Package serve turns a cloud provider that was written for upstream's library
// (k8s.io/cloud-provider) into a provider of Outrigger, in a few lines:
//
//	func main() {
//		serve.Main(func() (cloudprovider.Interface, error) { return cloud.New(serve.CloudConfig()) })
//	}
//
// README.md of this module says which options a cloud may need, and what is lost on the way.
package serve

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"reflect"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/informers"
	cloudprovider "k8s.io/cloud-provider"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
)

// Factory makes the cloud, once, after the flags were read. An error ends the process.
type Factory func() (cloudprovider.Interface, error)

// Clients are what upstream's app hands to the constructor of a cloud.
type Clients struct {
	// Builder makes clients with the provider's rights; Initialize gets it, too.
	Builder cloudprovider.ControllerClientBuilder
	// Informers are those of SetInformers, too. They start once the cloud is initialized.
	Informers informers.SharedInformerFactory
}

// Options of a cloud; the zero value fits most.
type Options struct {
	// Name of the provider; empty: the cloud's ProviderName. 1 to 63 of a-z, 0-9 and '-'.
	Name string
	// Version for logs; empty: that of the module that the cloud comes from.
	Version string
	// ProviderIDPrefixes of the cloud's provider IDs; empty: "<name>://".
	ProviderIDPrefixes []string
	// WithoutProviderID: the cloud (Instances v1) has no provider IDs.
	WithoutProviderID bool
	// VisibilityDelay is how old a Node must be before its absence is believed; 0: 1 min.
	VisibilityDelay time.Duration
	// ManagedLabelKeys are labels that are kept in sync after a Node was initialized.
	ManagedLabelKeys []string
	// InstanceConcurrency is the number of lookups at one time, or of calls of BatchInstances; 0: 8.
	InstanceConcurrency int

	// ServiceAnnotationPrefixes that the cloud reads; empty: all.
	ServiceAnnotationPrefixes []string
	// NodeAnnotationPrefixes that the cloud reads; empty: all.
	NodeAnnotationPrefixes []string
	// LoadBalancerClasses that are served besides Services without a class.
	LoadBalancerClasses []string
	// WithoutDefaultClass: Services without a class are not served.
	WithoutDefaultClass bool
	// LoadBalancersInFlight is the number of load balancers that are changed at one time, at most 256; 0: 1, since upstream
	// changes one at a time by default, and clouds rely on it.
	LoadBalancersInFlight int
	// TargetLabelKeys are labels of Nodes that the cloud's load balancers look at: UpdateLoadBalancer is called when one of
	// them changes. At most 64.
	TargetLabelKeys []string
	// LoadBalancerOptions are the cloud's annotations for the options of a load balancer that mean the same in every cloud. Nil:
	// the controller refuses these options.
	LoadBalancerOptions *OptionAnnotations
	// ConfigurationRevision names how a Service is turned into cloud resources: with another one every
	// load balancer is ensured again. Empty: made from Version, the cloud config file, the arguments, and the environment except
	// what differs from Pod to Pod. For load balancers that are lost with this process it names the process, by a UUID
	// that is made at its start.
	ConfigurationRevision string

	// RouteConcurrency is the number of routes that are changed at one time, at most 256; 0: 200, as upstream.
	RouteConcurrency int

	// Volumes names the volumes that a PVLabeler knows: CSI drivers or in-tree kinds. Nil: no volume
	// is labelled.
	Volumes *v1.VolumesCapability

	// Effects are the annotations and conditions that the cloud writes to the Service or Node of a call, by their prefixes.
	// The controller writes them for the provider, and its --provider-effect-prefixes must grant them. Nil: none; without
	// rights of the provider's own in Kubernetes events alone.
	Effects *v1.EffectsCapability

	// Classify names the reason of an error of the cloud; nil where it does not know, and the adapter
	// reads what the clients of many clouds have in common.
	Classify func(error) *provider.Error

	// AnswerWithin is how long a call about a load balancer or route is waited for; then it goes on by
	// itself, and the controller asks again. 0: 45 s. At most 55 s: the controller takes 60 s of silence for
	// a loss.
	AnswerWithin time.Duration
	// CallLimit is when the context of such a call ends; 0: 20 min.
	CallLimit time.Duration

	// Flags adds the vendor's own flags to those of Run. Flags of pflag are added one by one:
	// flags.Var(flag.Value, flag.Name, flag.Usage).
	Flags func(flags *flag.FlagSet)
	// AfterFlags changes the options that follow from flags, once these have been read.
	AfterFlags func(options *Options)

	// WithoutClient: Initialize gets no client builder, and SetInformers is not called.
	WithoutClient bool

	// memory of the objects that the clients of ClientBuilder write to; nil: there are none.
	memory *memory
}

// flags are the values of the adapter's own flags.
type flags struct {
	cloudConfig string
	kubeconfig  string
	inCluster   bool
	verbosity   int
}

// set has the flags of this process, for CloudConfig and Registered.
var set flags

// CloudConfig is the path that --cloud-config names; empty: none.
func CloudConfig() string { return set.cloudConfig }

// Kubeconfig is the path that --kubeconfig names, for a cloud that makes a client of its own; empty: none.
func Kubeconfig() string { return set.kubeconfig }

// Registered is the factory of a cloud that registers itself with the library when it is imported, as
// most do: it gets the file of --cloud-config.
func Registered(name string) Factory {
	return func() (cloudprovider.Interface, error) {
		var config io.Reader // an untyped nil, where there is no file
		if path := CloudConfig(); path != "" {
			file, err := os.Open(path)
			if err != nil {
				return nil, fmt.Errorf("cannot read --cloud-config: %w", err)
			}
			defer func() { _ = file.Close() }()
			config = file
		}
		if !cloudprovider.IsCloudProvider(name) {
			return nil, fmt.Errorf("no cloud provider %q is registered: import its package", name)
		}
		return cloudprovider.GetCloudProvider(name, config)
	}
}

// Main serves a cloud with the default options; see Run.
func Main(factory Factory) { Run(Options{}, factory) }

// Run is a provider's main, with the commands and flags of provider.Main and besides them
// --cloud-config, --kubeconfig, --in-cluster, -v and those of Options.Flags.
func Run(options Options, factory Factory) {
	run(options, func(*Clients) (cloudprovider.Interface, error) { return factory() })
}

// RunWithClients is Run for a cloud whose constructor takes clients or informers, such as a lister of Nodes. Without rights
// in Kubernetes they would show less than the whole: then it ends with an error that names --kubeconfig and --in-cluster.
func RunWithClients(options Options, construct func(Clients) (cloudprovider.Interface, error)) {
	run(options, withClients(construct))
}

func withClients(construct func(Clients) (cloudprovider.Interface, error)) func(*Clients) (cloudprovider.Interface, error) {
	return func(clients *Clients) (cloudprovider.Interface, error) {
		if clients == nil {
			return nil, errors.New("its constructor takes clients of Kubernetes: name the provider's rights with --kubeconfig or --in-cluster")
		}
		return construct(*clients)
	}
}

func run(options Options, construct func(*Clients) (cloudprovider.Interface, error)) {
	provider.MainWithFlags(options.register, func(ctx context.Context) (*provider.Provider, error) {
		if err := setKlog(set.verbosity, os.Exit); err != nil {
			return nil, err
		}
		return newProvider(ctx, options, construct)
	})
}

func (o Options) register(flags *flag.FlagSet) {
	flags.StringVar(&set.cloudConfig, "cloud-config", "", "`file` with the cloud's configuration")
	flags.StringVar(&set.kubeconfig, "kubeconfig", "",
		"`file` with rights of the provider's own in Kubernetes; empty: it has none, and sees the Nodes and "+
			"Services of the controller's calls, by their names")
	flags.BoolVar(&set.inCluster, "in-cluster", false, "the provider has the rights of the Pod's ServiceAccount, whose token "+
		"is mounted in its container")
	flags.IntVar(&set.verbosity, "v", 0, "`level` of the cloud's own log lines")
	if o.Flags != nil {
		o.Flags(flags)
	}
}

// New makes a provider from a cloud, for a main of one's own, without the flags of Run: CloudConfig and Kubeconfig are
// empty then, and it has no rights in Kubernetes. ctx is the life of the cloud: the stop channel of Initialize, and the parent of its calls.
func New(ctx context.Context, options Options, factory Factory) (*provider.Provider, error) {
	return newProvider(ctx, options, func(*Clients) (cloudprovider.Interface, error) { return factory() })
}

// newProvider makes the cloud with clients; nil: the provider has no rights in Kubernetes.
func newProvider(ctx context.Context, options Options, construct func(*Clients) (cloudprovider.Interface, error)) (*provider.Provider, error) {
	rights, err := set.rights()
	if err != nil {
		return nil, err
	}
	options.afterFlags()
	memory := newMemory()
	if options.Effects == nil && rights == nil {
		options.Effects = &v1.EffectsCapability{}
	}
	builder := newClientBuilder(rights, memory, options.Effects)
	client, err := builder.Client("shared-informers")
	if err != nil {
		return nil, err
	}
	clients := Clients{builder, informers.NewSharedInformerFactory(client, 0)}
	cloud, err := provider.Recovered(ctx, func() (cloudprovider.Interface, error) {
		if rights == nil {
			return construct(nil)
		}
		return construct(&clients)
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("the cloud cannot be made: %w", err)
	case cloud == nil:
		return nil, errors.New("the cloud's factory returned neither a cloud nor an error")
	}
	if err := initialize(ctx, options, cloud, clients, rights != nil); err != nil {
		return nil, err
	}
	return provider.Recovered(ctx, func() (*provider.Provider, error) {
		return wrapped(ctx, options, cloud, memory, set.cloudConfig), nil
	})
}

func (o *Options) afterFlags() {
	if o.AfterFlags != nil {
		o.AfterFlags(o)
	}
}

// Wrap makes a provider from a cloud that the caller has initialized, as upstream's app does. cloudConfig is the path of
// the cloud's configuration; empty: none. ctx is the parent of the cloud's calls. A cloud that uses Kubernetes is
// initialized with the clients of Options.ClientBuilder.
func Wrap(ctx context.Context, options Options, cloud cloudprovider.Interface, cloudConfig string) (*provider.Provider, error) {
	return provider.Recovered(ctx, func() (*provider.Provider, error) {
		return wrapped(ctx, options, cloud, cmp.Or(options.memory, newMemory()), cloudConfig), nil
	})
}

// initialize runs before the socket appears: capabilities may exist only after it, and a handshake must
// not wait.
func initialize(ctx context.Context, options Options, cloud cloudprovider.Interface, clients Clients, hasRights bool) error {
	slow := time.AfterFunc(10*time.Second, func() {
		slog.Warn("the cloud's Initialize has not returned yet; the provider serves once it has. A cloud that waits for " +
			"informers needs rights of its own in Kubernetes (--kubeconfig, --in-cluster)")
	})
	_, err := provider.Recovered(ctx, func() (struct{}, error) {
		if options.WithoutClient {
			cloud.Initialize(nil, ctx.Done())
			return struct{}{}, nil
		}
		cloud.Initialize(clients.Builder, ctx.Done())
		if user, ok := cloud.(cloudprovider.InformerUser); ok {
			user.SetInformers(clients.Informers)
			if !hasRights { // each of their requests would be refused
				slog.Warn("the cloud's code has informers, which stay empty and never sync: the provider has no rights of " +
					"its own in Kubernetes; name them with --kubeconfig or --in-cluster if the cloud needs them")
			}
		}
		return struct{}{}, nil
	})
	slow.Stop()
	if err != nil || !hasRights {
		return err
	}
	return AwaitInformers(ctx, clients.Informers)
}

// wrapped is the cloud as a provider.
func wrapped(ctx context.Context, options Options, cloud cloudprovider.Interface, memory *memory, cloudConfig string) *provider.Provider {
	options = withDefaults(options, cloud, cloudConfig)
	outcomes := newOutcomes(options.Classify)
	p := &provider.Provider{
		Name: options.Name, Version: options.Version, WithoutClusterID: !cloud.HasClusterID(),
		Status:                    outcomes.status,
		ServiceAnnotationPrefixes: options.ServiceAnnotationPrefixes,
		NodeAnnotationPrefixes:    options.NodeAnnotationPrefixes,
		Effects:                   options.Effects,
	}
	bridged := func(most int) *bridge {
		return newBridge(ctx, options.AnswerWithin, options.CallLimit, most, outcomes)
	}
	p.Instances, p.InstancesCapability = newInstances(options, cloud, memory, outcomes)
	p.LoadBalancers, p.LoadBalancersCapability = newLoadBalancers(options, cloud, memory, outcomes, bridged)
	p.Routes, p.RoutesCapability = newRoutes(options, cloud, memory, outcomes, bridged)
	if labeler, ok := cloud.(cloudprovider.PVLabeler); ok && options.Volumes != nil {
		p.Volumes = &volumes{cloud: labeler, outcomes: outcomes}
		p.VolumesCapability = options.Volumes
	}
	return p
}

func withDefaults(options Options, cloud cloudprovider.Interface, cloudConfig string) Options {
	options.Name = cmp.Or(options.Name, cloud.ProviderName())
	options.Version = cmp.Or(options.Version, buildVersion(cloud))
	options.InstanceConcurrency = cmp.Or(options.InstanceConcurrency, 8)
	options.RouteConcurrency = cmp.Or(options.RouteConcurrency, 200)
	options.AnswerWithin = min(cmp.Or(options.AnswerWithin, 45*time.Second), 55*time.Second)
	options.CallLimit = cmp.Or(options.CallLimit, 20*time.Minute)
	if options.ConfigurationRevision == "" {
		options.ConfigurationRevision = configurationRevision(options.Version, cloudConfig)
	}
	if len(options.ProviderIDPrefixes) == 0 {
		options.ProviderIDPrefixes = []string{options.Name + "://"}
	}
	// The cloud also reads what it writes: a removal is one only of an annotation that the object has.
	if len(options.ServiceAnnotationPrefixes) > 0 {
		options.ServiceAnnotationPrefixes = slices.Concat(options.ServiceAnnotationPrefixes, options.Effects.GetServiceAnnotationPrefixes())
	}
	if len(options.NodeAnnotationPrefixes) > 0 {
		options.NodeAnnotationPrefixes = slices.Concat(options.NodeAnnotationPrefixes, options.Effects.GetNodeAnnotationPrefixes())
	} else {
		options.NodeAnnotationPrefixes = []string{"*"}
	}
	return options
}

// unknownVersion is that of a program that was built without one, as in a container without .git.
const unknownVersion = "unknown"

func buildVersion(cloud cloudprovider.Interface) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return unknownVersion
	}
	return versionOf(packageOf(reflect.TypeOf(cloud)), info)
}

// packageOf is the package of a type; of one of main that begins with another, embedded, that one's.
func packageOf(kind reflect.Type) string {
	switch {
	case kind.Kind() == reflect.Pointer:
		return packageOf(kind.Elem())
	case kind.PkgPath() == "main" && kind.Kind() == reflect.Struct && kind.NumField() > 0 && kind.Field(0).Anonymous:
		return packageOf(kind.Field(0).Type)
	default:
		return kind.PkgPath()
	}
}

// versionOf is the version of the module that has a package; else that of the main module, or its commit.
func versionOf(path string, info *debug.BuildInfo) string {
	from := &info.Main
	for _, module := range info.Deps {
		if strings.HasPrefix(path+"/", module.Path+"/") && module.Version != "" {
			from = module
		}
	}
	if from.Version != "" && from.Version != "(devel)" {
		return from.Version
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			return setting.Value
		}
	}
	return unknownVersion
}

// ofThisPod are variables whose values differ from Pod to Pod, and those that Kubernetes makes of other Services.
var ofThisPod = regexp.MustCompile(`^((HOST|NODE|POD)_\w+|HOSTNAME|\w+_SERVICE_(HOST|PORT\w*)|\w+_PORT(_\d+_\w+)?)=`)

// configurationRevision is equal over restarts of one binary with one configuration: all that the cloud can have read.
func configurationRevision(version, cloudConfig string) string {
	if version == unknownVersion {
		slog.Warn("the version of the cloud's module is unknown, so that an upgrade ensures no load balancer again: build from a " +
			"repository or a released module, or name it in Options.Version")
	}
	content, _ := os.ReadFile(cloudConfig) // no file is named, or the cloud has refused a file that cannot be read
	environment := slices.DeleteFunc(os.Environ(), ofThisPod.MatchString)
	slices.Sort(environment)
	parts := [][]string{{string(content), version}, os.Args[1:], environment}
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%q", parts)))[:32]
}
