// These tests read settings that the provider refuses.

package main

import (
	"context"
	"strings"
	"testing"

	"outrigger.dev/providers/digitalocean/internal/instances"
)

func TestBadSettingsAreRefused(t *testing.T) {
	good := settings{
		apiURL: "http://api.invalid", region: "nyc3", families: instances.IPv4, defaultType: "REGIONAL",
	}
	for name, test := range map[string]struct {
		token    string
		families string
		problem  string
	}{
		"a family twice":       {"token", "ipv4,ipv4", `--ip-families is "ipv4,ipv4"`},
		"a blank token":        {" \n", "ipv4", "there is no API token"},
		"an unknown IP family": {"token", "ipv5", `--ip-families is "ipv5"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(tokenEnv, test.token)
			settings := good
			settings.families = test.families
			if _, err := settings.provider(context.Background()); err == nil || !strings.HasPrefix(err.Error(), test.problem) {
				t.Error(err)
			}
		})
	}
}
