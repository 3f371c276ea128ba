package main

import (
	"context"
	"errors"
	"testing"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
)

func lookup(t *testing.T, name, providerID string) (provider.Lookup, error) {
	t.Helper()
	return machines.lookup(context.Background(), &v1.Node{Name: name, ProviderId: providerID})
}

func TestAMachineIsAnsweredByNameAndByID(t *testing.T) {
	byName, err := lookup(t, "node-1", "")
	if err != nil || byName.Found.GetProviderId() != scheme+"node-1" || byName.Found.Addresses[0].Address != "10.0.0.1" {
		t.Errorf("node-1: %v, %v", byName.Found, err)
	}
	byID, err := lookup(t, "renamed", scheme+"node-3")
	if err != nil || byID.Found.GetPowerState() != v1.PowerState_POWER_STATE_SHUTDOWN {
		t.Errorf("node-3: %v, %v", byID.Found, err)
	}
}

func TestWhatIsNoMachineIsToldApart(t *testing.T) {
	if gone, err := lookup(t, "gone", ""); err != nil || gone.Absent == nil {
		t.Errorf("gone: %v, %v", gone, err)
	}
	if foreign, err := lookup(t, "foreign", "other-cloud://i-1"); err != nil || foreign.NotManaged == nil {
		t.Errorf("foreign: %v, %v", foreign, err)
	}
	_, err := lookup(t, "malformed", scheme+"not an id")
	if failure := (*provider.Error)(nil); !errors.As(err, &failure) || failure.Reason != provider.MalformedProviderID {
		t.Errorf("malformed: %v", err)
	}
}
