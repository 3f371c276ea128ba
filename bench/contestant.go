package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"outrigger.dev/bench/cloud"
)

// contestant is one way to run the controllers of a cloud.
type contestant struct {
	id, title string
	// agent is the beginning of its user agent, up to the slash.
	agent string
	// once: one round shows its times, which its own rate limit decides and which are long.
	once bool
	// command is the package of the bench that it needs besides; empty: none.
	command string
	start   func(*rig, string) (*replica, error)
}

const (
	upstreamAgent  = "upstream"
	outriggerAgent = "outrigger"
)

// tuned are upstream's flags as an operator of a large cluster sets them.
var tuned = []string{
	"--kube-api-qps=2000", "--kube-api-burst=4000", "--concurrent-node-syncs=32", "--concurrent-service-syncs=32",
	"--concurrent-node-status-updates=32",
}

var contestants = []contestant{
	{
		id: "upstream", title: "upstream, default flags", agent: upstreamAgent, once: true,
		command: "./cmd/upstream", start: inProcess(),
	},
	{
		id: "upstream-tuned", title: "upstream, tuned", agent: upstreamAgent,
		command: "./cmd/upstream", start: inProcess(tuned...),
	},
	{
		id: "adapter", title: "Outrigger, Go adapter", agent: outriggerAgent,
		command: "./cmd/provider", start: behindAdapter(),
	},
	{id: "mock", title: "Outrigger, mock", agent: outriggerAgent, start: beforeMock},
}

// replica is a controller with its provider, as in a Pod; upstream's has the provider in process.
type replica struct {
	controller, provider *process
	port                 int
	// calls counts those to the cloud so far, by operation.
	calls func() (map[string]int, error)
}

func (r *replica) processes() []*process {
	if r.provider == nil {
		return []*process{r.controller}
	}
	return []*process{r.controller, r.provider}
}

// end signals both processes at once, as the end of a Pod does, and returns when they are gone.
func (r *replica) end(ctx context.Context, signal syscall.Signal) error {
	r.signal(signal)
	return r.gone(ctx)
}

func (r *replica) signal(signal syscall.Signal) {
	for _, p := range r.processes() {
		p.signal(signal)
	}
}

func (r *replica) gone(ctx context.Context) error {
	for _, p := range r.processes() {
		if err := p.gone(ctx); err != nil {
			return err
		}
	}
	return nil
}

// healthy waits until the controller's server answers, which it does on a standby too.
func (r *replica) healthy(ctx context.Context) error {
	client := http.Client{
		Timeout:   time.Second,
		Transport: &http.Transport{TLSClientConfig: anyServer(), DisableKeepAlives: true},
	}
	return until(ctx, "the controller's /healthz", r.processes(), func() bool {
		answer, err := client.Get("https://127.0.0.1:" + strconv.Itoa(r.port) + "/healthz")
		if err != nil {
			return false
		}
		_ = answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
}

// anyServer takes whatever certificate a controller has made itself.
func anyServer() *tls.Config { return &tls.Config{InsecureSkipVerify: true} }

// common are the flags of both controllers. There are no routes: few clouds have them, and upstream's fake lists
// them in no time.
func common(g *rig, port int) []string {
	return []string{
		"--kubeconfig=" + g.kubeconfig, "--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(port),
		"--configure-cloud-routes=false",
	}
}

func inProcess(more ...string) func(*rig, string) (*replica, error) {
	return func(g *rig, dir string) (*replica, error) {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		environment, journal := g.cloud(dir)
		arguments := append(common(g, port), "--cloud-provider="+cloud.Name, "--cert-dir="+dir)
		controller, err := launch(dir, "controller", g.programs.upstream, environment, append(arguments, more...)...)
		if err != nil {
			return nil, err
		}
		return &replica{controller: controller, port: port, calls: linesOf(journal)}, nil
	}
}

func behindAdapter(more ...string) func(*rig, string) (*replica, error) {
	return func(g *rig, dir string) (*replica, error) { return withAdapter(g, dir, more) }
}

func withAdapter(g *rig, dir string, more []string) (*replica, error) {
	environment, journal := g.cloud(dir)
	endpoint := "unix://" + filepath.Join(dir, "provider.sock")
	provider, err := launch(dir, "provider", g.programs.provider, environment, "--endpoint", endpoint)
	if err != nil {
		return nil, err
	}
	return besides(g, dir, provider, endpoint, linesOf(journal), more...)
}

func beforeMock(g *rig, dir string) (*replica, error) {
	socket := filepath.Join(dir, "provider.sock")
	provider, err := launch(dir, "provider", g.programs.mock, nil,
		"serve", "--endpoint", "unix://"+socket, "--synthesize-instances", "--latency", g.options.latency.String())
	if err != nil {
		return nil, err
	}
	return besides(g, dir, provider, "unix://"+socket, mockCounters(socket+".ctl"))
}

// besides starts Outrigger's controller with its default flags.
func besides(g *rig, dir string, provider *process, endpoint string, calls func() (map[string]int, error), more ...string) (*replica, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	arguments := append(common(g, port), "--provider-endpoint="+endpoint)
	controller, err := launch(dir, "controller", g.programs.controller, nil, append(arguments, more...)...)
	if err != nil {
		return nil, err
	}
	return &replica{controller: controller, provider: provider, port: port, calls: calls}, nil
}

// cloud is the environment of a process with the Go fake, and the file in which its calls are.
func (g *rig) cloud(dir string) (environment []string, journal string) {
	journal = filepath.Join(dir, "journal")
	environment = []string{cloud.Journal + "=" + journal, cloud.Latency + "=" + g.options.latency.String()}
	if g.state != "" {
		environment = append(environment, cloud.Durable+"="+g.state)
	}
	return environment, journal
}

// linesOf counts the lines of a journal.
func linesOf(journal string) func() (map[string]int, error) {
	return func() (map[string]int, error) {
		counts := map[string]int{}
		file, err := os.Open(journal)
		if os.IsNotExist(err) {
			return counts, nil
		}
		if err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }()
		lines := bufio.NewScanner(file)
		for lines.Scan() {
			counts[lines.Text()]++
		}
		return counts, lines.Err()
	}
}

// mockCounters asks the mock how often it has called its cloud.
func mockCounters(socket string) func() (map[string]int, error) {
	client := http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}
	return func() (map[string]int, error) {
		answer, err := client.Get("http://mock/v1/counters")
		if err != nil {
			return nil, fmt.Errorf("the mock's counters: %w", err)
		}
		defer func() { _ = answer.Body.Close() }()
		var counters struct {
			Cloud map[string]struct{ Served int } `json:"cloud"`
		}
		if err := json.NewDecoder(answer.Body).Decode(&counters); err != nil {
			return nil, fmt.Errorf("the mock's counters: %w", err)
		}
		counts := map[string]int{}
		for operation, count := range counters.Cloud {
			counts[operation] = count.Served
		}
		return counts, nil
	}
}

// changesCloud tells the calls that change a cloud from lookups, by the operation's name.
func changesCloud(operation string) bool {
	isLookup := func(prefix string) bool { return strings.HasPrefix(operation, prefix) }
	return !slices.ContainsFunc([]string{"Get", "List", "Find", "Instance"}, isLookup)
}

// freePort is one that no process listens on right now.
func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port, nil
}
