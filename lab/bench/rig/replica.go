// This file starts controllers with their providers, and probes them.

package rig

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"outrigger.dev/bench/cloud"
	"outrigger.dev/bench/contract"
)

// User agents of the two controllers, up to the slash.
const (
	Upstream  = "upstream"
	Outrigger = "outrigger"
)

// Replica is a controller with its provider, as in a Pod; upstream's has the provider in process.
type Replica struct {
	Controller, Provider *Process
	// Port is that of the HTTPS server, WebhookPort that of the webhook, 0 without one.
	Port, WebhookPort int
	// Calls counts the calls to the cloud so far, by operation.
	Calls func() (map[string]int, error)
}

// Starter starts a replica whose files are in dir.
type Starter func(r *Rig, dir string) (*Replica, error)

// Start starts a replica with a folder of its own, whose name is short: a socket's path has 107 bytes at most.
func (r *Rig) Start(name string, starter Starter) (*Replica, error) {
	r.replicas++
	dir := filepath.Join(r.dir, fmt.Sprintf("%d-%s", r.replicas, name))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	return starter(r, dir)
}

// Changes counts the calls so far that change the cloud.
func (r *Replica) Changes() (int, error) {
	counts, err := r.Calls()
	sum := 0
	for operation, count := range counts {
		if ChangesCloud(operation) {
			sum += count
		}
	}
	return sum, err
}

// Processes are the controller's and, where there is one, the provider's.
func (r *Replica) Processes() []*Process {
	if r.Provider == nil {
		return []*Process{r.Controller}
	}
	return []*Process{r.Controller, r.Provider}
}

// End signals both processes together, as the end of a Pod does, and waits until they are gone.
func (r *Replica) End(ctx context.Context, signal syscall.Signal) error {
	r.Signal(signal)
	return r.Wait(ctx)
}

// Signal sends a signal to both processes.
func (r *Replica) Signal(signal syscall.Signal) {
	for _, process := range r.Processes() {
		process.Signal(signal)
	}
}

// Wait returns when both processes have ended.
func (r *Replica) Wait(ctx context.Context) error {
	for _, process := range r.Processes() {
		if err := process.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// URL of a path of the controller's HTTPS server.
func (r *Replica) URL(path string) string { return "https://127.0.0.1:" + strconv.Itoa(r.Port) + path }

// Healthy waits until the controller's server answers, which it does on a standby too.
func (r *Replica) Healthy(ctx context.Context) error {
	probe := Probe{URL: r.URL("/healthz"), Limit: time.Second}
	return Until(ctx, "the controller's /healthz", r.Processes(), func() (bool, error) { return probe.OK(ctx), nil })
}

// Probe is a request on a connection of its own each time.
type Probe struct {
	URL, Token string
	// Limit is how long an answer may take.
	Limit time.Duration
}

// OK reports whether the answer is a 200. The probe takes any certificate: a controller makes its own.
func (p Probe) OK(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, p.Limit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL, nil)
	if err != nil {
		return false
	}
	if p.Token != "" {
		request.Header.Set("Authorization", "Bearer "+p.Token)
	}
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	answer, err := client.Do(request)
	if err != nil {
		return false
	}
	_ = answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

// InProcess starts upstream's controller with the Go fake in process.
func InProcess(flags ...string) Starter {
	return func(r *Rig, dir string) (*Replica, error) {
		environment, journal := r.cloud(dir)
		flags := append([]string{"--cloud-provider=" + cloud.Name, "--cert-dir=" + dir, noRoutes}, flags...)
		controller, port, err := r.controller(dir, r.programs.upstream, environment, flags)
		return &Replica{Controller: controller, Port: port, Calls: lineCounts(journal)}, err
	}
}

// OverContract starts upstream's controller with the provider of the control plane's cloud.
func OverContract(flags ...string) Starter {
	return func(r *Rig, dir string) (*Replica, error) {
		endpoint, err := r.noted(endpointNote)
		if err != nil {
			return nil, err
		}
		flags := append([]string{"--cloud-provider=linux", "--cert-dir=" + dir}, flags...)
		controller, port, err := r.controller(dir, r.programs.upstream, []string{contract.Endpoint + "=" + endpoint}, flags)
		return &Replica{Controller: controller, Port: port}, err
	}
}

// BesideProvider starts Outrigger's controller with the provider of the control plane's cloud.
func BesideProvider(flags ...string) Starter {
	return func(r *Rig, dir string) (*Replica, error) {
		endpoint, err := r.noted(endpointNote)
		if err != nil {
			return nil, err
		}
		flags := append([]string{"--provider-endpoint=" + endpoint}, flags...)
		controller, port, err := r.controller(dir, r.programs.controller, nil, flags)
		return &Replica{Controller: controller, Port: port}, err
	}
}

// BehindAdapter starts Outrigger's controller, and the Go fake behind the Go adapter with flags of its own.
func BehindAdapter(adapterFlags, flags []string) Starter {
	return func(r *Rig, dir string) (*Replica, error) {
		environment, journal := r.cloud(dir)
		endpoint := "unix://" + filepath.Join(dir, "provider.sock")
		provider, err := start(dir, "provider", r.programs.provider, environment, append([]string{"--endpoint", endpoint}, adapterFlags...)...)
		if err != nil {
			return nil, err
		}
		return r.beside(dir, provider, endpoint, lineCounts(journal), flags)
	}
}

// WithMock starts Outrigger's controller and the mock with flags of its own.
func WithMock(mockFlags, flags []string) Starter {
	return func(r *Rig, dir string) (*Replica, error) {
		socket := filepath.Join(dir, "provider.sock")
		mockFlags := append([]string{"serve", "--endpoint", "unix://" + socket, "--latency", r.session.Latency.String()}, mockFlags...)
		provider, err := start(dir, "provider", r.programs.mock, nil, mockFlags...)
		if err != nil {
			return nil, err
		}
		return r.beside(dir, provider, "unix://"+socket, mockCounters(socket+".ctl"), flags)
	}
}

// beside starts Outrigger's controller for a provider.
func (r *Rig) beside(dir string, provider *Process, endpoint string, calls func() (map[string]int, error), flags []string) (*Replica, error) {
	flags = append([]string{"--provider-endpoint=" + endpoint, noRoutes}, flags...)
	controller, port, err := r.controller(dir, r.programs.controller, nil, flags)
	return &Replica{Controller: controller, Provider: provider, Port: port, Calls: calls}, err
}

// noRoutes: few clouds have them, and upstream's fake lists them in no time.
const noRoutes = "--configure-cloud-routes=false"

// controller starts either controller with the flags that they share.
func (r *Rig) controller(dir, path string, environment, flags []string) (*Process, int, error) {
	port, err := FreePort()
	if err != nil {
		return nil, 0, err
	}
	flags = append([]string{
		"--kubeconfig=" + r.Kubeconfig, "--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(port),
	}, flags...)
	controller, err := start(dir, "controller", path, environment, flags...)
	return controller, port, err
}

// cloud is the environment of a process with the Go fake, and the file in which its calls are.
func (r *Rig) cloud(dir string) (environment []string, journal string) {
	journal = filepath.Join(dir, "journal")
	environment = []string{cloud.Journal + "=" + journal, cloud.Latency + "=" + r.session.Latency.String()}
	return environment, journal
}

// FreePort is a port that no process listens on right now.
func FreePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port, nil
}
