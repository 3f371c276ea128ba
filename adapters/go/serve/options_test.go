// These tests read a vendor's flags and options.

package serve

import (
	"flag"
	"testing"
)

func TestAVendorsFlagsAreBesideThoseOfTheAdapter(t *testing.T) {
	defer func() { set = flags{} }()
	flags := flag.NewFlagSet("provider", flag.ContinueOnError)
	region := ""
	Options{Flags: func(flags *flag.FlagSet) { flags.StringVar(&region, "region", "", "") }}.register(flags)
	err := flags.Parse([]string{"--region=eu", "--cloud-config=c", "--kubeconfig=k", "-v=4"})
	if err != nil || region != "eu" || CloudConfig() != "c" || Kubeconfig() != "k" || set.verbosity != 4 {
		t.Error(err, region, set)
	}
}

func TestACloudInMemoryIsVolatile(t *testing.T) {
	for _, volatile := range []bool{false, true} {
		_, got := serving(t, Options{Volatile: volatile}, &cloud{balancers: &balancers{}})
		if got.Capabilities.LoadBalancers.Volatile != volatile {
			t.Error(got)
		}
	}
}
