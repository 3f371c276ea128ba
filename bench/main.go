// The bench runs upstream's library and Outrigger on one API server in turn, and measures the same of each.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"outrigger.dev/bench/report"
)

type options struct {
	nodes, services, rounds int
	latency, timeout        time.Duration
	contestants             []contestant
	binaries                string
	markdown                []string
	keep                    bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// command runs the bench, or with `migrate` as first argument the change of controllers, with `attack` the attacks.
func command(ctx context.Context, arguments []string) error {
	if len(arguments) > 0 && arguments[0] == "migrate" {
		chosen, err := parseMigrate(arguments[1:])
		if err != nil {
			return err
		}
		return migrate(ctx, chosen)
	}
	if len(arguments) > 0 && arguments[0] == "attack" {
		chosen, err := parseAttack(arguments[1:])
		if err != nil {
			return err
		}
		return attacks(ctx, chosen)
	}
	chosen, err := parse(arguments)
	if err != nil {
		return err
	}
	return bench(ctx, chosen)
}

func parse(arguments []string) (options, error) {
	var chosen options
	var quick bool
	var only string
	known := flag.NewFlagSet("bench", flag.ContinueOnError)
	known.IntVar(&chosen.nodes, "nodes", 1000, "`number` of nodes that wait at the start")
	known.IntVar(&chosen.services, "services", 200, "`number` of Services that are made then")
	known.IntVar(&chosen.rounds, "rounds", 3, "`number` of rounds, every other one in the reverse order; upstream with its default flags runs in the first")
	known.DurationVar(&chosen.latency, "latency", 20*time.Millisecond, "`time` of one call to the cloud")
	known.DurationVar(&chosen.timeout, "timeout", 15*time.Minute, "longest `time` of a contestant in a round")
	known.StringVar(&only, "contestants", "", "comma-separated `ids` of "+ids(contestants)+" (default all)")
	known.BoolVar(&quick, "quick", false, "100 nodes, 20 Services, one round, without upstream's default flags; each can be set all the same")
	known.StringVar(&chosen.binaries, "binaries", "", "`folder` with cloud-controller-manager, provider-mock and outrigger-testbed "+
		"(default: cargo builds them with --release)")
	known.Func("markdown", "`file` with the marks of a table, which is written there; may be repeated", func(file string) error {
		chosen.markdown = append(chosen.markdown, file)
		return nil
	})
	known.BoolVar(&chosen.keep, "keep", false, "leave logs, journals and the audit log behind")
	if err := known.Parse(arguments); err != nil {
		return chosen, err
	}
	if known.NArg() > 0 {
		return chosen, fmt.Errorf("there are no arguments, only flags: %q", known.Args())
	}
	given := map[string]bool{}
	known.Visit(func(one *flag.Flag) { given[one.Name] = true })
	if quick {
		for _, one := range []struct {
			name  string
			value *int
			quick int
		}{{"nodes", &chosen.nodes, 100}, {"services", &chosen.services, 20}, {"rounds", &chosen.rounds, 1}} {
			if !given[one.name] {
				*one.value = one.quick
			}
		}
		if only == "" {
			only = ids(contestants[1:])
		}
	}
	if chosen.nodes < 1 || chosen.services < 1 || chosen.rounds < 1 {
		return chosen, errors.New("--nodes, --services and --rounds must be at least 1")
	}
	var err error
	chosen.contestants, err = choose(only)
	return chosen, err
}

// choose finds contestants by their ids; none named are all.
func choose(only string) ([]contestant, error) {
	if only == "" {
		return contestants, nil
	}
	var chosen []contestant
	for id := range strings.SplitSeq(only, ",") {
		place := slices.IndexFunc(contestants, func(one contestant) bool { return one.id == id })
		if place < 0 {
			return nil, fmt.Errorf("--contestants: there is no %q, only %s", id, ids(contestants))
		}
		chosen = append(chosen, contestants[place])
	}
	return chosen, nil
}

func ids(all []contestant) string {
	var names []string
	for _, one := range all {
		names = append(names, one.id)
	}
	return strings.Join(names, ",")
}

// bench runs all rounds and shows the result: a table on a terminal, JSON in a pipe.
func bench(ctx context.Context, chosen options) error {
	for _, file := range chosen.markdown {
		if err := report.CheckMarks(file, &report.Report{}); err != nil {
			return err
		}
	}
	var result *report.Report
	err := withLogs(func() bool { return chosen.keep }, func(dir string) (err error) {
		result, err = rounds(ctx, chosen, dir)
		return err
	})
	if err != nil {
		return err
	}
	for _, file := range chosen.markdown {
		if err := report.WriteInto(file, result); err != nil {
			return err
		}
	}
	return result.Show(os.Stdout)
}

func rounds(ctx context.Context, chosen options, dir string) (*report.Report, error) {
	built, err := build(ctx, chosen, dir)
	if err != nil {
		return nil, err
	}
	note("starting etcd and kube-apiserver")
	g, err := newRig(ctx, chosen, built, dir)
	if err != nil {
		return nil, err
	}
	defer g.close()
	server, err := g.client.Discovery().ServerVersion()
	if err != nil {
		return nil, err
	}
	result := &report.Report{
		Nodes: chosen.nodes, Services: chosen.services, Rounds: chosen.rounds, Processors: runtime.NumCPU(),
		Latency: chosen.latency.String(), Kubernetes: server.GitVersion, Upstream: upstreamVersion(),
		Date: time.Now().UTC().Format(time.DateOnly),
	}
	for _, one := range chosen.contestants {
		result.Contestants = append(result.Contestants, &report.Contestant{ID: one.id, Title: one.title})
	}
	for round := range chosen.rounds {
		if err := g.round(ctx, round, result); err != nil {
			return nil, err
		}
	}
	return result, nil
}

// round runs all contestants; the order alternates, so that none always has the younger API server.
func (g *rig) round(ctx context.Context, round int, result *report.Report) error {
	floor, err := g.floor(ctx)
	if err != nil {
		return err
	}
	note("round %d of %d: floor %.1f s", round+1, g.options.rounds, floor)
	order := make([]int, len(g.options.contestants))
	for place := range order {
		order[place] = place
	}
	if round%2 == 1 {
		slices.Reverse(order)
	}
	for _, place := range order {
		one, began := g.options.contestants[place], time.Now()
		if one.once && round > 0 {
			continue
		}
		found, err := g.run(ctx, one)
		if err != nil {
			return err
		}
		found["floor.seconds"], found["cold.ratio"] = floor, found["cold.seconds"]/floor
		result.Contestants[place].Add(found)
		note("  %s: cold start %.1f s, Services %.1f s, fail-over %.1f s and %.1f s (%.0f s in all)", one.title,
			found["cold.seconds"], found["services.seconds"], found["failover.sigterm"], found["failover.kill"],
			time.Since(began).Seconds())
	}
	return nil
}

// upstreamVersion is that of go.mod.
func upstreamVersion() string {
	info, ok := debug.ReadBuildInfo()
	if ok {
		for _, module := range info.Deps {
			if module.Path == "k8s.io/cloud-provider" {
				return module.Version
			}
		}
	}
	return "unknown"
}

// note is progress: standard output has the result only.
func note(format string, values ...any) {
	fmt.Fprintf(os.Stderr, "%s %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, values...))
}
