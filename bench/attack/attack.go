// Package attack floods the HTTPS ports of a controller that has just been started, and shows what that does to its memory, its
// probes and its log.
package attack

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"outrigger.dev/bench/attack/flood"
	"outrigger.dev/bench/report"
	"outrigger.dev/bench/rig"
)

type options struct {
	rig.Session
	duration time.Duration
	only     string
}

// step is a row of the table.
type step struct {
	id, title          string
	peers, connections int
	send               flood.Traffic
	// scrapes: a scraper with a good token has the right to see the metrics.
	scrapes bool
	// webhook: it is about that port, which upstream's library has only with a vendor's webhook.
	webhook bool
}

var steps = []step{
	{id: "8x64x50", title: "random paths, 8 addresses, 64 connections each, 50 streams each", peers: 8, connections: 64, send: flood.Streams(50)},
	{id: "8x64x200", title: "the same with 200 streams", peers: 8, connections: 64, send: flood.Streams(200)},
	{id: "1x64x200", title: "the same from one address", peers: 1, connections: 64, send: flood.Streams(200)},
	{id: "http1", title: "random paths over HTTP/1.1, 8 addresses, 64 connections each", peers: 8, connections: 64, send: flood.Paths()},
	{id: "uploads", title: "512 connections that upload 1 MiB to random paths", peers: 8, connections: 64, send: flood.Uploads(1 << 20)},
	{id: "tokens", title: "made-up tokens, 16 addresses, 4 connections each, beside a scraper", peers: 16, connections: 4, send: flood.Tokens(), scrapes: true},
	{id: "webhook", title: "guessed volumes to the webhook, 8 addresses, 64 connections each", peers: 8, connections: 64, send: flood.Reviews(), webhook: true},
}

// Run runs each attack on upstream's controller and on Outrigger's in turn.
func Run(ctx context.Context, arguments []string) error {
	o := options{Session: rig.Session{Latency: 20 * time.Millisecond, Programs: []string{rig.UpstreamProgram}}}
	flags := flag.NewFlagSet("bench attack", flag.ContinueOnError)
	flags.DurationVar(&o.duration, "duration", time.Minute, "`time` of each attack")
	flags.StringVar(&o.only, "only", "", "`id` of the only attack, such as 8x64x50, tokens or webhook (default all)")
	if err := o.Parse(flags, arguments); err != nil {
		return err
	}
	return o.Session.Run(ctx, []string{mark}, func(r *rig.Rig) (report.Result, error) { return o.all(ctx, r) })
}

func (o *options) all(ctx context.Context, r *rig.Rig) (report.Result, error) {
	conditions, err := r.Conditions()
	if err != nil {
		return nil, err
	}
	token, err := scraper(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("the scraper's token: %w", err)
	}
	outcomes := &outcomes{
		conditions: fmt.Sprintf("%s, its default flags; each attack %s, a probe each second", conditions, o.duration),
	}
	for _, step := range steps {
		if o.only != "" && o.only != step.id {
			continue
		}
		for _, victim := range victims {
			if step.webhook && !victim.hasWebhook {
				continue
			}
			outcome, err := run(ctx, r, step, victim, o.duration, token)
			if err != nil {
				return nil, fmt.Errorf("%s, %s: %w", step.id, victim.title, err)
			}
			rig.Note("%s, %s: %.0f MiB above %.0f, %d of %d probes failed, %d lines, %d answers", step.id, victim.title,
				outcome.PeakMiB-outcome.IdleMiB, outcome.IdleMiB, outcome.Probes.Failed, outcome.Probes.All, outcome.Lines, outcome.Answers)
			outcomes.all = append(outcomes.all, outcome)
		}
	}
	if len(outcomes.all) == 0 {
		return nil, fmt.Errorf("--only: there is no attack %q", o.only)
	}
	return outcomes, nil
}

// run runs one attack on a controller that has just been started.
func run(ctx context.Context, r *rig.Rig, step step, victim victim, duration time.Duration, token string) (outcome, error) {
	outcome := outcome{Attack: step.id, Controller: victim.title, Seconds: duration.Seconds()}
	replica, err := r.Start(step.id, victim.start)
	if err != nil {
		return outcome, err
	}
	defer func() {
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		if replica.End(limit, syscall.SIGTERM) != nil {
			replica.Signal(syscall.SIGKILL)
		}
	}()
	if err := replica.Healthy(ctx); err != nil {
		return outcome, err
	}
	scrape := rig.Probe{URL: replica.URL("/metrics"), Token: token, Limit: 10 * time.Second}
	// After the first scrape it has cached who may see what.
	err = rig.Until(ctx, "the first scrape", replica.Processes(), func() (bool, error) { return scrape.OK(ctx), nil })
	if err != nil {
		return outcome, err
	}
	time.Sleep(3 * time.Second)
	idle, err := replica.Controller.Usage()
	if err != nil {
		return outcome, err
	}
	outcome.IdleMiB = idle.PeakMiB
	lines, lookups := linesIn(replica.Controller.Log), lookupsOf(replica)

	port := replica.Port
	if step.webhook {
		port = replica.WebhookPort
	}
	attack := &flood.Flood{
		Server: "127.0.0.1:" + strconv.Itoa(port), Peers: step.peers, Connections: step.connections, Send: step.send,
	}
	ctx, stop := context.WithTimeout(ctx, duration)
	defer stop()
	var beside sync.WaitGroup
	// This is the chart's liveness probe, though more often; /livez is not served upstream.
	probe := rig.Probe{URL: replica.URL("/healthz"), Limit: 15 * time.Second}
	beside.Go(func() { outcome.Probes = every(ctx, time.Second, probe) })
	if step.scrapes {
		beside.Go(func() { outcome.Scrapes = every(ctx, 2*time.Second, scrape) })
	}
	beside.Go(func() { outcome.PeakMiB = replica.Controller.PeakMiB(ctx) })
	attack.Run(ctx)
	beside.Wait()
	outcome.Answers, outcome.Refused = attack.Answers.Load(), attack.Refused.Load()
	outcome.Lines, outcome.Lookups = linesIn(replica.Controller.Log)-lines, lookupsOf(replica)-lookups
	outcome.Ended = replica.Controller.Ended() != nil
	return outcome, nil
}

// every sends a probe once in each period until the context ends, and awaits the answers.
func every(ctx context.Context, period time.Duration, probe rig.Probe) tally {
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
				ok := probe.OK(context.WithoutCancel(ctx))
				mutex.Lock()
				defer mutex.Unlock()
				count.All++
				if !ok {
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

func lookupsOf(replica *rig.Replica) int {
	counts, err := replica.Calls()
	if err != nil {
		return 0
	}
	return counts["GetVolume"]
}
