package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"outrigger.dev/bench/attack"
	"outrigger.dev/bench/report"
)

// attackOptions are those of `bench attack`.
type attackOptions struct {
	duration           time.Duration
	only               string
	binaries, markdown string
	keep               bool
}

func parseAttack(arguments []string) (attackOptions, error) {
	var chosen attackOptions
	known := flag.NewFlagSet("bench attack", flag.ContinueOnError)
	known.DurationVar(&chosen.duration, "duration", time.Minute, "`time` of each attack")
	known.StringVar(&chosen.only, "only", "", "`id` of the only attack, such as 8x64x50, tokens or webhook (default all)")
	known.StringVar(&chosen.binaries, "binaries", "", "`folder` with cloud-controller-manager, provider-mock and outrigger-testbed "+
		"(default: cargo builds them with --release)")
	known.StringVar(&chosen.markdown, "markdown", "", "`file` with the marks of the table, which is written there")
	known.BoolVar(&chosen.keep, "keep", false, "leave logs behind")
	if err := known.Parse(arguments); err != nil {
		return chosen, err
	}
	if known.NArg() > 0 {
		return chosen, fmt.Errorf("there are no arguments, only flags: %q", known.Args())
	}
	return chosen, nil
}

// attackStep is a row of the table.
type attackStep struct {
	id, title          string
	peers, connections int
	send               attack.Traffic
	// scrapes: a scraper with a good token has the right to see the metrics.
	scrapes bool
	// webhook: it is about that port, which upstream's library has only with a vendor's webhook.
	webhook bool
}

var attackSteps = []attackStep{
	{id: "8x64x50", title: "random paths, 8 addresses, 64 connections each, 50 streams each", peers: 8, connections: 64, send: attack.Streams(50)},
	{id: "8x64x200", title: "the same with 200 streams", peers: 8, connections: 64, send: attack.Streams(200)},
	{id: "1x64x200", title: "the same from one address", peers: 1, connections: 64, send: attack.Streams(200)},
	{id: "http1", title: "random paths over HTTP/1.1, 8 addresses, 64 connections each", peers: 8, connections: 64, send: attack.Paths()},
	{id: "uploads", title: "512 connections that upload 1 MiB to random paths", peers: 8, connections: 64, send: attack.Uploads(1 << 20)},
	{id: "tokens", title: "made-up tokens, 16 addresses, 4 connections each, beside a scraper", peers: 16, connections: 4, send: attack.Tokens(), scrapes: true},
	{id: "webhook", title: "guessed volumes to the webhook, 8 addresses, 64 connections each", peers: 8, connections: 64, send: attack.Reviews(), webhook: true},
}

// suffered is what one controller shows of one attack.
type suffered struct {
	Attack     string  `json:"attack"`
	Controller string  `json:"controller"`
	IdleMiB    float64 `json:"idleMiB"`
	PeakMiB    float64 `json:"peakMiB"`
	Probes     tally   `json:"probes"`
	Scrapes    tally   `json:"scrapes"`
	Lines      int     `json:"logLines"`
	Seconds    float64 `json:"seconds"`
	Answers    int64   `json:"answers"`
	Refused    int64   `json:"refused"`
	Lookups    int     `json:"lookups"`
	Ended      bool    `json:"ended"`
}

// tally counts tries.
type tally struct {
	Failed int `json:"failed"`
	All    int `json:"all"`
}

// attacks runs each attack on upstream's controller and on Outrigger's in turn.
func attacks(ctx context.Context, chosen attackOptions) error {
	if chosen.markdown != "" {
		if err := report.CheckMarks(chosen.markdown, &report.Attacks{}); err != nil {
			return err
		}
	}
	var conditions string
	var found []suffered
	err := withLogs(func() bool { return chosen.keep }, func(dir string) (err error) {
		conditions, found, err = attackInTurn(ctx, chosen, dir)
		return err
	})
	if err != nil {
		return err
	}
	table := tableOf(found)
	if chosen.markdown != "" {
		if err := report.WriteInto(chosen.markdown, &report.Attacks{Conditions: conditions, Table: table}); err != nil {
			return err
		}
	}
	return report.Show(os.Stdout, found, table)
}

func attackInTurn(ctx context.Context, chosen attackOptions, dir string) (string, []suffered, error) {
	both := options{
		binaries: chosen.binaries, latency: 20 * time.Millisecond,
		contestants: []contestant{{command: "./cmd/upstream"}},
	}
	built, err := build(ctx, both, dir)
	if err != nil {
		return "", nil, err
	}
	note("starting etcd and kube-apiserver")
	g, err := newRig(ctx, both, built, dir)
	if err != nil {
		return "", nil, err
	}
	defer g.close()
	server, err := g.client.Discovery().ServerVersion()
	if err != nil {
		return "", nil, err
	}
	token, err := g.scraper(ctx)
	if err != nil {
		return "", nil, fmt.Errorf("the scraper's token: %w", err)
	}
	var found []suffered
	for _, step := range attackSteps {
		if chosen.only != "" && chosen.only != step.id {
			continue
		}
		for _, one := range victims {
			if step.webhook && !one.hasWebhook {
				continue
			}
			result, err := g.attack(ctx, step, one, chosen.duration, token)
			if err != nil {
				return "", nil, fmt.Errorf("%s, %s: %w", step.id, one.title, err)
			}
			note("%s, %s: %.0f MiB above %.0f, %d of %d probes failed, %d lines, %d answers", step.id, one.title,
				result.PeakMiB-result.IdleMiB, result.IdleMiB, result.Probes.Failed, result.Probes.All, result.Lines, result.Answers)
			found = append(found, result)
		}
	}
	if len(found) == 0 {
		return "", nil, fmt.Errorf("--only: there is no attack %q", chosen.only)
	}
	conditions := fmt.Sprintf("%s, Kubernetes %s, upstream's library %s, its default flags; each attack %s, a probe each second",
		time.Now().UTC().Format(time.DateOnly), server.GitVersion, upstreamVersion(), chosen.duration)
	return conditions, found, nil
}

// attack runs one attack on a controller that has just been started.
func (g *rig) attack(ctx context.Context, step attackStep, one victim, duration time.Duration, token string) (suffered, error) {
	found := suffered{Attack: step.id, Controller: one.title, Seconds: duration.Seconds()}
	g.replicas++
	dir := filepath.Join(g.dir, fmt.Sprintf("%d-%s", g.replicas, step.id))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return found, err
	}
	replica, webhook, err := one.start(g, dir)
	if err != nil {
		return found, err
	}
	defer func() {
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		if replica.end(limit, syscall.SIGTERM) != nil {
			replica.signal(syscall.SIGKILL)
		}
	}()
	if err := replica.healthy(ctx); err != nil {
		return found, err
	}
	base := "https://127.0.0.1:" + strconv.Itoa(replica.port)
	scrape := caller{url: base + "/metrics", token: token, limit: 10 * time.Second}
	// From then on it knows who may see what.
	if err := until(ctx, "the first scrape", replica.processes(), func() bool { return scrape.ask(ctx) }); err != nil {
		return found, err
	}
	time.Sleep(3 * time.Second)
	before, err := replica.controller.usage()
	if err != nil {
		return found, err
	}
	found.IdleMiB = before.peakMiB
	lines, lookups := linesIn(replica.controller.log), lookupsOf(replica)

	port := replica.port
	if step.webhook {
		port = webhook
	}
	flood := &attack.Flood{
		Server: "127.0.0.1:" + strconv.Itoa(port), Peers: step.peers, Connections: step.connections, Send: step.send,
	}
	under, stop := context.WithTimeout(ctx, duration)
	defer stop()
	var beside sync.WaitGroup
	// As the chart's liveness probe, though more often; /livez is not served upstream.
	beside.Go(func() {
		found.Probes = caller{url: base + "/healthz", limit: 15 * time.Second}.every(under, time.Second)
	})
	if step.scrapes {
		beside.Go(func() { found.Scrapes = scrape.every(under, 2*time.Second) })
	}
	// A controller that ends shows its peak no more.
	beside.Go(func() { found.PeakMiB = replica.controller.peak(under) })
	flood.Run(under)
	beside.Wait()
	found.Answers, found.Refused = flood.Answers.Load(), flood.Refused.Load()
	found.Lines, found.Lookups = linesIn(replica.controller.log)-lines, lookupsOf(replica)-lookups
	found.Ended = replica.controller.hasEnded() != nil
	return found, nil
}

// peak reads the memory of a process until the context or the process ends.
func (p *process) peak(ctx context.Context) float64 {
	var peak float64
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		found, err := p.usage()
		if err != nil {
			return peak
		}
		peak = max(peak, found.peakMiB)
		select {
		case <-ctx.Done():
			return peak
		case <-p.ended:
			return peak
		case <-ticker.C:
		}
	}
}

// caller asks one URL on a connection of its own each time.
type caller struct {
	url, token string
	limit      time.Duration
}

func (c caller) ask(ctx context.Context) bool {
	limited, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	request, err := http.NewRequestWithContext(limited, http.MethodGet, c.url, nil)
	if err != nil {
		return false
	}
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	client := http.Client{Transport: &http.Transport{TLSClientConfig: anyServer(), DisableKeepAlives: true}}
	answer, err := client.Do(request)
	if err != nil {
		return false
	}
	_ = answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

// every asks until the context ends, and awaits the answers.
func (c caller) every(ctx context.Context, period time.Duration) tally {
	var count tally
	var mutex sync.Mutex
	var all sync.WaitGroup
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			all.Wait()
			return count
		case <-ticker.C:
			all.Go(func() {
				good := c.ask(context.WithoutCancel(ctx))
				mutex.Lock()
				defer mutex.Unlock()
				count.All++
				if !good {
					count.Failed++
				}
			})
		}
	}
}

func linesIn(log string) int {
	text, err := os.ReadFile(log)
	if err != nil {
		return 0
	}
	return bytes.Count(text, []byte("\n"))
}

func lookupsOf(one *replica) int {
	counts, err := one.calls()
	if err != nil {
		return 0
	}
	return counts["GetVolume"]
}

// tableOf has a row for each attack, the figures of upstream's controller before Outrigger's.
func tableOf(found []suffered) [][]string {
	table := [][]string{{
		"attack", "memory above idle, MiB: upstream", "Outrigger", "failed probes: upstream", "Outrigger",
		"log lines a second: upstream", "Outrigger",
	}}
	for _, step := range attackSteps {
		row := []string{step.title, "–", "–", "–", "–", "–", "–"}
		ran := false
		for place, one := range victims {
			for _, result := range found {
				if result.Attack == step.id && result.Controller == one.title {
					ran = true
					row[1+place], row[3+place], row[5+place] = result.cells()
				}
			}
		}
		if ran {
			table = append(table, row)
		}
	}
	return table
}

func (s suffered) cells() (memory, probes, lines string) {
	memory = fmt.Sprintf("%.0f", s.PeakMiB-s.IdleMiB)
	if s.Ended {
		memory += ", then it ended"
	}
	probes = fmt.Sprintf("%d of %d", s.Probes.Failed, s.Probes.All)
	if s.Scrapes.All > 0 {
		probes += fmt.Sprintf("; scrapes %d of %d", s.Scrapes.Failed, s.Scrapes.All)
	}
	if s.Lookups > 0 {
		probes += fmt.Sprintf("; %.0f lookups a second", float64(s.Lookups)/s.Seconds)
	}
	return memory, probes, fmt.Sprintf("%.1f", float64(s.Lines)/s.Seconds)
}
