// These tests start cloud providers without a network: each serves the contract, and the requests to Kubernetes that it may
// not make do not end it.

package published_test

import (
	"bytes"
	"errors"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
	"outrigger.dev/adapters/go/published"
)

func TestAPublishedCloudServesTheContract(t *testing.T) {
	google := httptest.NewServer(published.NewCompute(nil))
	defer google.Close()
	address := google.Listener.Addr().String()
	for _, cloud := range []struct {
		name        string
		folder      string // of the program
		module      string // of the cloud's code, whose version the provider says
		config      string
		environment []string
		refusal     string // the log line that shows that its code asked Kubernetes; empty: it asks nothing
	}{
		{
			name: "gce", folder: "gce", module: "k8s.io/cloud-provider-gcp/providers",
			config:      published.Config(address),
			environment: []string{"GCE_METADATA_HOST=" + address},
			refusal:     "configmaps",
		},
		{
			name: "aws", folder: "../../../providers/aws", module: "k8s.io/cloud-provider-aws",
			config:      "[Global]\nRegion = us-east-1\nVPC = vpc-1\nSubnetID = subnet-1\nKubernetesClusterID = c\n",
			environment: []string{"AWS_EC2_METADATA_DISABLED=true"},
		},
	} {
		t.Run(cloud.name, func(t *testing.T) {
			folder := t.TempDir()
			program, config := filepath.Join(folder, "provider"), filepath.Join(folder, "cloud.conf")
			build := exec.Command("go", "build", "-C", cloud.folder, "-ldflags=-s -w", "-o", program, ".")
			if output, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, output)
			}
			version, err := exec.Command("go", "list", "-C", cloud.folder, "-m", "-f", "{{.Version}}", cloud.module).Output()
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(config, []byte(cloud.config), 0o600); err != nil {
				t.Fatal(err)
			}
			endpoint, err := provider.ParseEndpoint("unix://" + filepath.Join(folder, "s"))
			if err != nil {
				t.Fatal(err)
			}
			running := start(t, exec.Command(program, "--endpoint", endpoint.String(), "--cloud-config", config), cloud.environment)
			running.until("it serves", func() bool {
				_, err := provider.Probe(endpoint, true, time.Second)
				return err == nil
			})
			running.until("it has asked Kubernetes", func() bool { return strings.Contains(running.log(), cloud.refusal) })
			got := handshake(t, endpoint)
			served := got.Capabilities
			if got.ProviderName != cloud.name || got.ProviderVersion != strings.TrimSpace(string(version)) ||
				served.Instances == nil || served.LoadBalancers == nil || served.Routes == nil {
				t.Fatal(got)
			}
			if err := running.end(); err != nil {
				t.Fatalf("%v: %s", err, running.log())
			}
		})
	}
}

func handshake(t *testing.T, endpoint provider.Endpoint) *v1.HandshakeResponse {
	client, err := grpc.NewClient(endpoint.String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	got, err := v1.NewProviderServiceClient(client).Handshake(t.Context(), &v1.HandshakeRequest{
		MinMinor: 1, MaxMinor: 1, Cluster: &v1.ClusterInfo{Name: "c", Uid: "u"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// process is a provider that runs until its test ends.
type process struct {
	*testing.T
	command *exec.Cmd
	output  string
	ended   chan error
}

func start(t *testing.T, command *exec.Cmd, environment []string) *process {
	p := &process{t, command, filepath.Join(t.TempDir(), "log"), make(chan error, 1)}
	log, err := os.Create(p.output)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	command.Env = append(os.Environ(), environment...)
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Process.Kill() })
	go func() { p.ended <- command.Wait() }()
	return p
}

// until waits for a state while the process runs.
func (p *process) until(state string, holds func() bool) {
	p.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(20 * time.Millisecond) {
		select {
		case err := <-p.ended:
			p.Fatalf("the provider ended (%v) before %s: %s", err, state, p.log())
		default:
		}
		if time.Now().After(deadline) {
			p.Fatalf("not within a minute: %s: %s", state, p.log())
		}
	}
}

// end asks the process to end, and returns how it ended.
func (p *process) end() error {
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case err := <-p.ended:
		return err
	case <-time.After(time.Minute):
		return errors.New("the provider ignores SIGTERM")
	}
}

func (p *process) log() string {
	p.Helper()
	text, err := os.ReadFile(p.output)
	if err != nil {
		p.Fatal(err)
	}
	return string(bytes.TrimSpace(text))
}
