// These tests hold the limits of a status, and read endpoints and command lines.

package provider

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc/status"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
)

func TestAStatusStaysWithinItsLimits(t *testing.T) {
	long := wholeStatus(Errorf(CloudError, "%s", strings.Repeat("é", 4000)))
	if len(long.Message) > maxTextBytes || !strings.HasSuffix(long.Message, "é…") {
		t.Error(long)
	}
	short := wholeStatus(Errorf(CloudError, "no").WithEffects(&v1.KubernetesEffects{RemoveAnnotations: []string{"a"}}))
	if len(short.Details) != 2 || short.Details[1].TypeUrl != "type.googleapis.com/cloudprovider.v1.KubernetesEffects" {
		t.Error(short)
	}
	if text := status.Convert(grpcError(errors.New("\xff"))).Message(); text != "\uFFFD" {
		t.Errorf("%q", text)
	}
}

func TestEndpointsAreAbsolutePathsOfFiles(t *testing.T) {
	for text, why := range map[string]string{
		"unix:///run/a.sock": "", "unix:/run/a.sock": "", "unix://run/a.sock": "absolute", "unix:a.sock": "absolute",
		"unix://": "absolute", "unix:///": "directory", "unix:///run/": "directory", "/run/a.sock": "no Unix socket",
		"tcp://localhost:1": "no Unix socket", "unix:///" + strings.Repeat("x", 100): "101 bytes",
	} {
		endpoint, err := ParseEndpoint(text)
		switch {
		case why == "" && (err != nil || endpoint.Path() != "/run/a.sock"):
			t.Errorf("%s: %v", text, err)
		case why != "" && (err == nil || !strings.Contains(err.Error(), why) || !strings.Contains(err.Error(), text)):
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestCommandLines(t *testing.T) {
	for _, test := range []struct {
		args string
		code int
		says string
	}{
		{"--help", 0, "-endpoint"},
		{"probe --help", 0, "-ready"},
		{"sing", 2, `unknown argument "sing"`},
		{"--ready", 2, "not defined"},
		{"probe --timeout 0", 2, "1 to 60"},
		{"--endpoint tcp://a:1", 2, "no Unix socket"},
		{"probe --endpoint unix:///nowhere/a.sock", 1, "no provider serves"},
	} {
		var out strings.Builder
		code := execute(strings.Fields(test.args), &out, &out, noFlags, nil)
		if code != test.code || !strings.Contains(out.String(), test.says) {
			t.Errorf("%s: %d: %s", test.args, code, out.String())
		}
	}
}

func TestADestinationHasOneKeyInEachSpelling(t *testing.T) {
	for destination, key := range map[string]string{"10.0.0.7/24": "10.0.0.0/24", "FD00:0::/64": "fd00::/64", "none": "none"} {
		if is := RouteKey(destination); is != key {
			t.Errorf("%s: %s", destination, is)
		}
	}
}
