// Command digitalocean is Outrigger's provider for DigitalOcean: droplets as instances, and load
// balancers for Services.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/digitalocean/godo"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
	"outrigger.dev/providers/digitalocean/internal/api"
	"outrigger.dev/providers/digitalocean/internal/instances"
	"outrigger.dev/providers/digitalocean/internal/loadbalancers"
)

func main() {
	var settings settings
	provider.MainWithFlags(settings.register, settings.provider)
}

// Environment variables that set flags which the command line does not have.
const (
	tokenFileEnv = "DIGITALOCEAN_TOKEN_FILE"
	tokenEnv     = "DIGITALOCEAN_ACCESS_TOKEN"
	urlEnv       = "DIGITALOCEAN_API_URL"
	regionEnv    = "DIGITALOCEAN_REGION"
	vpcEnv       = "DIGITALOCEAN_VPC"
)

// translation is the version of the rules by which a Service becomes a load balancer. When it changes, the controller
// ensures every Service again; so change it only with the meaning of an annotation or of a default.
const translation = "1"

const metadataURL = "http://169.254.169.254/metadata/v1/"

// settings are the flags.
type settings struct {
	tokenFile, apiURL, region, vpc, defaultType, families string
	zoneIsRegion, adopt                                   bool
	// metadata is the URL of the droplet's metadata service.
	metadata string
}

func (s *settings) register(flags *flag.FlagSet) {
	s.metadata = metadataURL
	text := func(to *string, name, env, fallback, usage string) {
		if env != "" {
			if value := os.Getenv(env); value != "" {
				fallback = value
			}
			usage += "; also $" + env
		}
		flags.StringVar(to, name, fallback, usage)
	}
	text(&s.tokenFile, "token-file", tokenFileEnv, "",
		"`file` with the API token, read again before each request; without one the token is $"+tokenEnv)
	text(&s.apiURL, "api-url", urlEnv, api.DefaultURL, "`URL` of the API")
	text(&s.region, "region", regionEnv, "", "`slug` of the region of new load balancers; "+
		"without one, that of the droplet that this process runs on")
	text(&s.vpc, "vpc", vpcEnv, "", "`UUID` of the VPC of new load balancers; without one, the region's default")
	text(&s.defaultType, "default-load-balancer-type", "", godo.LoadBalancerTypeRegionalNetwork,
		"`type` of new load balancers without the annotation: REGIONAL or REGIONAL_NETWORK")
	text(&s.families, "ip-families", "", instances.IPv4,
		"`families` of the addresses of Nodes, in their order: ipv4, ipv6, or both with a comma")
	flags.BoolVar(&s.zoneIsRegion, "zone-is-region", false,
		"label Nodes with their region as zone, too: DigitalOcean has no zones")
	flags.BoolVar(&s.adopt, "adopt-load-balancers", false, "take over untagged load balancers that Services name in the "+
		"annotation "+loadbalancers.IDAnnotation)
}

// provider builds the provider. Before it serves it may wait for one request only, which asks for the region.
func (s *settings) provider(ctx context.Context) (*provider.Provider, error) {
	token, err := s.token()
	if err != nil {
		return nil, err
	}
	if !slices.Contains([]string{"ipv4", "ipv6", "ipv4,ipv6", "ipv6,ipv4"}, s.families) {
		return nil, fmt.Errorf("--ip-families is %q: use ipv4, ipv6, ipv4,ipv6 or ipv6,ipv4", s.families)
	}
	if !slices.Contains([]string{godo.LoadBalancerTypeRegional, godo.LoadBalancerTypeRegionalNetwork}, s.defaultType) {
		return nil, fmt.Errorf("--default-load-balancer-type is %q: use REGIONAL or REGIONAL_NETWORK", s.defaultType)
	}
	if s.region == "" {
		if s.region, err = ownRegion(ctx, s.metadata); err != nil {
			return nil, err
		}
		slog.Info("the region is that of this droplet", "region", s.region)
	}
	client, err := api.NewClient(s.apiURL, token, "outrigger-digitalocean/"+version())
	if err != nil {
		return nil, err
	}
	go checkAPI(ctx, client)
	return &provider.Provider{
		Name:    "digitalocean",
		Version: version(),
		ServiceAnnotationPrefixes: []string{
			loadbalancers.AnnotationPrefix, loadbalancers.DisownAnnotation, loadbalancers.IDAnnotation,
		},
		Effects: &v1.EffectsCapability{ServiceAnnotationPrefixes: []string{loadbalancers.IDAnnotation}},
		Status:  client.Health.Status,
		// An hour has 5,000 requests, and a lookup by name takes one or more lists. Nodes that wait for their turn share a call.
		RateLimits: []*v1.RateLimit{{CallClass: v1.CallClass_CALL_CLASS_INSTANCES, Qps: 0.5, Burst: 10}},
		Instances: &instances.Instances{
			API: client, Options: instances.Options{Families: strings.Split(s.families, ","), ZoneIsRegion: s.zoneIsRegion},
		},
		InstancesCapability: &v1.InstancesCapability{
			MaxBatchSize: 200, LookupPreference: v1.LookupPreference_LOOKUP_PREFERENCE_LIST_ALL,
		},
		LoadBalancers: &loadbalancers.LoadBalancers{API: client, Options: loadbalancers.Options{
			Region: s.region, VPC: s.vpc, DefaultType: s.defaultType, Adopt: s.adopt,
		}},
		LoadBalancersCapability: &v1.LoadBalancersCapability{
			MaxInFlight: 10, ConfigurationRevision: translation, Options: loadbalancers.ServedOptions(),
		},
	}, nil
}

func (s *settings) token() (api.Token, error) {
	switch token := strings.TrimSpace(os.Getenv(tokenEnv)); {
	case s.tokenFile != "":
		read := api.FileToken(s.tokenFile)
		_, err := read()
		return read, err
	case token != "":
		slog.Warn("the token comes from the environment and stays until this process ends; use --token-file to rotate it",
			"variable", tokenEnv)
		return api.FixedToken(token), nil
	default:
		return nil, fmt.Errorf("there is no API token: set --token-file, $%s or $%s", tokenFileEnv, tokenEnv)
	}
}

// checkAPI logs at start whether the API and the token work, not only at the first Node.
func checkAPI(ctx context.Context, client *api.Client) {
	_, _, err := client.Droplets.List(ctx, &godo.ListOptions{Page: 1, PerPage: 1})
	if err = api.Explain(ctx, "list droplets", "droplet:read", err); err != nil && ctx.Err() == nil {
		slog.Warn("the first request to the API failed; each call makes its own requests", "error", err.Error())
	}
}

// ownRegion asks the metadata service of the droplet that this process runs on.
func ownRegion(ctx context.Context, metadata string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, metadata+"region", nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", fmt.Errorf("the droplet's metadata service does not tell the region: set --region: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, 64))
	region := strings.TrimSpace(string(body))
	if err != nil || response.StatusCode != http.StatusOK || region == "" {
		return "", errors.New("the droplet's metadata service does not tell the region: set --region")
	}
	return region, nil
}

// version returns the version of this module, with the commit if the build recorded it.
func version() string {
	const number = "0.1.0"
	build, _ := debug.ReadBuildInfo()
	if build != nil {
		for _, setting := range build.Settings {
			if setting.Key == "vcs.revision" {
				return number + "+" + setting.Value[:min(12, len(setting.Value))]
			}
		}
	}
	return number
}
