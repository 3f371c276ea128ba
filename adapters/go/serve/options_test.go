package serve

import (
	"flag"
	"testing"
)

func TestAVendorsFlagsAreBesideThoseOfTheAdapter(t *testing.T) {
	defer func() { set = flags{} }()
	known := flag.NewFlagSet("provider", flag.ContinueOnError)
	region := ""
	Options{Flags: func(known *flag.FlagSet) { known.StringVar(&region, "region", "", "") }}.register(known)
	err := known.Parse([]string{"--region=eu", "--cloud-config=c", "--kubeconfig=k", "-v=4"})
	if err != nil || region != "eu" || CloudConfig() != "c" || Kubeconfig() != "k" || set.verbosity != 4 {
		t.Error(err, region, set)
	}
}

func TestACloudInMemoryIsVolatile(t *testing.T) {
	for _, volatile := range []bool{false, true} {
		_, told := serving(t, Options{Volatile: volatile}, &cloud{balancers: &balancers{}})
		if told.Capabilities.LoadBalancers.Volatile != volatile {
			t.Error(told)
		}
	}
}
