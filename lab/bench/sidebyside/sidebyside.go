// Package sidebyside runs upstream's library and Outrigger on one API server in turn, and measures the same of each.
package sidebyside

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"outrigger.dev/bench/report"
	"outrigger.dev/bench/rig"
)

type options struct {
	rig.Session
	nodes, services, rounds int
	timeout                 time.Duration
	contestants             []contestant
	// envelope: the size of the largest cluster, whose table has a place of its own.
	envelope bool
}

// contestant is one way to run the controllers of a cloud.
type contestant struct {
	id, title string
	// agent is the beginning of its user agent, up to the slash.
	agent string
	// once: only the first round runs it. Its own rate limit decides its times, which are long.
	once bool
	// program is the program of the bench that it needs besides; empty: none.
	program string
	start   rig.Starter
}

// tuned are upstream's flags as an operator of a large cluster sets them.
var tuned = []string{
	"--kube-api-qps=2000", "--kube-api-burst=4000", "--concurrent-node-syncs=32", "--concurrent-service-syncs=32",
	"--concurrent-node-status-updates=32",
}

var contestants = []contestant{
	{
		id: "upstream", title: "upstream, default flags", agent: rig.Upstream, once: true,
		program: rig.UpstreamProgram, start: rig.InProcess(),
	},
	{
		id: "upstream-tuned", title: "upstream, tuned", agent: rig.Upstream,
		program: rig.UpstreamProgram, start: rig.InProcess(tuned...),
	},
	{
		id: "adapter", title: "Outrigger, Go adapter", agent: rig.Outrigger,
		program: rig.ProviderProgram, start: rig.BehindAdapter(nil, nil),
	},
	{
		id: "adapter-batch", title: "Outrigger, Go adapter in batches", agent: rig.Outrigger,
		program: rig.ProviderProgram, start: rig.BehindAdapter([]string{"--batch"}, nil),
	},
	{id: "mock", title: "Outrigger, mock", agent: rig.Outrigger, start: rig.WithMock([]string{"--synthesize-instances", "--lb-max-in-flight", "32"}, nil)},
}

// inEnvelope are those that are done with the largest cluster in minutes. Upstream is not, tuned either.
var inEnvelope = []contestant{contestants[3], contestants[4]}

// Run runs all rounds.
func Run(ctx context.Context, arguments []string) error {
	o, err := parse(arguments)
	if err != nil {
		return err
	}
	marks := []string{fullMark, summaryMark}
	if o.envelope {
		marks = []string{envelopeMark}
	}
	return o.Session.Run(ctx, marks, func(r *rig.Rig) (report.Result, error) {
		result, err := (&bench{Rig: r, options: o}).rounds(ctx)
		if err != nil {
			return nil, err
		}
		return result, nil
	})
}

func parse(arguments []string) (*options, error) {
	o := &options{}
	var quick bool
	var only string
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.IntVar(&o.nodes, "nodes", 1000, "`number` of nodes that wait at the start")
	flags.IntVar(&o.services, "services", 200, "`number` of Services that are made then")
	flags.IntVar(&o.rounds, "rounds", 3, "`number` of rounds, every other one in the reverse order; upstream with its default flags runs in the first")
	flags.DurationVar(&o.Latency, "latency", 20*time.Millisecond, "`time` of one call to the cloud")
	flags.DurationVar(&o.timeout, "timeout", 15*time.Minute, "longest `time` of a contestant in a round")
	flags.StringVar(&only, "contestants", "", "comma-separated `ids` of "+ids(contestants)+" (default all)")
	flags.BoolVar(&quick, "quick", false, "100 nodes, 20 Services, one round, without upstream's default flags; each can be set all the same")
	flags.BoolVar(&o.envelope, "envelope", false, "the largest cluster that Kubernetes supports, 5000 nodes and 10000 Services: "+
		"one round of "+ids(inEnvelope)+"; each can be set all the same")
	if err := o.Parse(flags, arguments); err != nil {
		return nil, err
	}
	sizes := map[string]string{}
	switch {
	case quick && o.envelope:
		return nil, errors.New("--quick and --envelope are two sizes: leave one out")
	case quick:
		sizes = map[string]string{"nodes": "100", "services": "20", "rounds": "1", "contestants": ids(contestants[1:])}
	case o.envelope:
		sizes = map[string]string{"nodes": "5000", "services": "10000", "rounds": "1", "contestants": ids(inEnvelope)}
	}
	isSet := map[string]bool{}
	flags.Visit(func(flag *flag.Flag) { isSet[flag.Name] = true })
	for name, value := range sizes {
		if !isSet[name] {
			_ = flags.Set(name, value) // takes each of these values
		}
	}
	if o.nodes < 1 || o.services < 1 || o.rounds < 1 {
		return nil, errors.New("--nodes, --services and --rounds must be at least 1")
	}
	var err error
	if o.contestants, err = choose(only); err != nil {
		return nil, err
	}
	for _, contestant := range o.contestants {
		if contestant.program != "" && !slices.Contains(o.Programs, contestant.program) {
			o.Programs = append(o.Programs, contestant.program)
		}
	}
	return o, nil
}

// choose returns contestants by their ids; without any, all.
func choose(only string) ([]contestant, error) {
	if only == "" {
		return contestants, nil
	}
	var subset []contestant
	for id := range strings.SplitSeq(only, ",") {
		index := slices.IndexFunc(contestants, func(contestant contestant) bool { return contestant.id == id })
		if index < 0 {
			return nil, fmt.Errorf("--contestants: there is no %q, only %s", id, ids(contestants))
		}
		subset = append(subset, contestants[index])
	}
	return subset, nil
}

func ids(all []contestant) string {
	var names []string
	for _, contestant := range all {
		names = append(names, contestant.id)
	}
	return strings.Join(names, ",")
}

func (b *bench) rounds(ctx context.Context) (*Report, error) {
	conditions, err := b.Conditions()
	if err != nil {
		return nil, err
	}
	result := &Report{
		Conditions: conditions, Nodes: b.nodes, Services: b.services, Rounds: b.options.rounds, Processors: runtime.NumCPU(),
		Latency: b.Latency.String(), envelope: b.envelope,
	}
	for _, contestant := range b.contestants {
		result.Contestants = append(result.Contestants, &report.Contestant{ID: contestant.id, Title: contestant.title})
	}
	for round := range b.options.rounds {
		if err := b.round(ctx, round, result); err != nil {
			return nil, err
		}
	}
	return result, nil
}

// round runs all contestants; the order alternates, so that none always has the younger API server.
func (b *bench) round(ctx context.Context, round int, result *Report) error {
	floor, err := b.floor(ctx)
	if err != nil {
		return err
	}
	rig.Note("round %d of %d: floor %.1f s", round+1, b.options.rounds, floor)
	for position := range b.contestants {
		index := position
		if round%2 == 1 {
			index = len(b.contestants) - 1 - position
		}
		contestant, began := b.contestants[index], time.Now()
		if contestant.once && round > 0 {
			continue
		}
		measured, err := b.measure(ctx, contestant)
		if err != nil {
			return err
		}
		measured["floor.seconds"], measured["cold.ratio"] = floor, measured["cold.seconds"]/floor
		result.Contestants[index].Add(measured)
		rig.Note("  %s: cold start %.1f s, Services %.1f s, fail-over %.1f s and %.1f s (%.0f s in all)", contestant.title,
			measured["cold.seconds"], measured["services.seconds"], measured["failover.sigterm"], measured["failover.kill"],
			time.Since(began).Seconds())
	}
	return nil
}
