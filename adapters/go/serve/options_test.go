// These tests read a vendor's flags and options.

package serve

import (
	"flag"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

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

func TestTargetsAreDeclared(t *testing.T) {
	options := Options{TargetLabelKeys: []string{"rack"}}
	_, got := serving(t, options, &cloud{balancers: &balancers{}})
	declared := got.Capabilities.LoadBalancers
	if !slices.Equal(declared.TargetLabelKeys, options.TargetLabelKeys) {
		t.Error(declared)
	}
}
