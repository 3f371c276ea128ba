package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"outrigger.dev/bench/cloud"
	"outrigger.dev/bench/migration"
	"outrigger.dev/bench/report"
)

// migrateOptions are those of `bench migrate`.
type migrateOptions struct {
	nodes, services    int
	timeout            time.Duration
	binaries, markdown string
	keep               bool
}

func parseMigrate(arguments []string) (migrateOptions, error) {
	var chosen migrateOptions
	known := flag.NewFlagSet("bench migrate", flag.ContinueOnError)
	known.IntVar(&chosen.nodes, "nodes", 20, "`number` of nodes that stand, one of them powered off")
	known.IntVar(&chosen.services, "services", 10, "`number` of Services that stand, one of them paused for good")
	known.DurationVar(&chosen.timeout, "timeout", 10*time.Minute, "longest `time` of all steps")
	known.StringVar(&chosen.binaries, "binaries", "", "`folder` with cloud-controller-manager, provider-mock and outrigger-testbed "+
		"(default: cargo builds them with --release)")
	known.StringVar(&chosen.markdown, "markdown", "", "`file` with the marks of the table, which is written there")
	known.BoolVar(&chosen.keep, "keep", false, "leave logs, journals and the audit log behind")
	if err := known.Parse(arguments); err != nil {
		return chosen, err
	}
	if known.NArg() > 0 {
		return chosen, fmt.Errorf("there are no arguments, only flags: %q", known.Args())
	}
	if chosen.nodes < 3 || chosen.services < 4 {
		return chosen, errors.New("--nodes must be at least 3, --services at least 4")
	}
	return chosen, nil
}

// migrate carries docs/migrate.md out, there and back, and fails if a step did more than it must.
func migrate(ctx context.Context, chosen migrateOptions) error {
	if chosen.markdown != "" {
		if err := report.CheckMarks(chosen.markdown, &report.Migration{}); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, chosen.timeout)
	defer cancel()
	var result *migration.Report
	err := withLogs(func() bool { return chosen.keep || len(result.Wrong()) > 0 }, func(dir string) (err error) {
		result, err = migrations(ctx, chosen, dir)
		return err
	})
	if err != nil {
		return err
	}
	if err := report.Show(os.Stdout, result, result.Table()); err != nil {
		return err
	}
	if wrong := result.Wrong(); len(wrong) > 0 {
		return fmt.Errorf("the steps did more than they must:\n%s", strings.Join(wrong, "\n"))
	}
	if chosen.markdown != "" {
		return report.WriteInto(chosen.markdown, &report.Migration{Conditions: result.Conditions(), Table: result.Table()})
	}
	return nil
}

func migrations(ctx context.Context, chosen migrateOptions, dir string) (*migration.Report, error) {
	both := options{
		binaries: chosen.binaries, latency: 20 * time.Millisecond, timeout: chosen.timeout,
		contestants: []contestant{{command: "./cmd/upstream"}, {command: "./cmd/provider"}},
	}
	built, err := build(ctx, both, dir)
	if err != nil {
		return nil, err
	}
	note("starting etcd and kube-apiserver")
	g, err := newRig(ctx, both, built, dir)
	if err != nil {
		return nil, err
	}
	defer g.close()
	server, err := g.client.Discovery().ServerVersion()
	if err != nil {
		return nil, err
	}
	g.state = filepath.Join(dir, "cloud.json")
	m := &mover{rig: g, store: cloud.Store{Path: g.state}, report: &migration.Report{
		Date: time.Now().UTC().Format(time.DateOnly), Kubernetes: server.GitVersion, Upstream: upstreamVersion(),
		Nodes: chosen.nodes, Services: chosen.services,
	}}
	defer m.stop()
	if err := m.prepare(ctx); err != nil {
		return nil, fmt.Errorf("before the first step: %w", err)
	}
	for _, step := range steps {
		note("%s", step.title)
		if err := step.take(m, ctx, step.title); err != nil {
			return nil, fmt.Errorf("%s: %w", step.title, err)
		}
	}
	return m.report, nil
}

// step is a row of the report.
type step struct {
	title string
	take  func(*mover, context.Context, string) error
}

const (
	migrationFlag = "--enable-leader-migration"
	unelected     = "--leader-elect=false"
)

// steps in their order: each begins where the one before it ended, with upstream's controller at first.
var steps = []step{
	{"`--plan` beside upstream's", (*mover).plan},
	{"all paused but one, under upstream's", (*mover).pauseAllButOne},
	{"there, by the shared Lease", to(outrigger)},
	{"all resumed but one", (*mover).resume},
	{"back", to(upstream)},
	{"`--plan` beside upstream's once more", (*mover).plan},
	{"there again, an edit taken back", change{next: outrigger, takesBack: true}.take},
	{"back, with nothing new", change{next: upstream, isQuiet: true}.take},
	{"there again, with nothing new", change{next: outrigger, isQuiet: true}.take},
	{"Outrigger anew, with nothing new", change{next: outrigger, isQuiet: true}.take},
	{"back, with leader migration, a machine gone", change{next: upstream, flags: []string{migrationFlag}, loses: worker(1)}.take},
	{"there, with leader migration on both sides, a machine gone", change{next: outrigger, flags: []string{migrationFlag}, loses: worker(2)}.take},
	{"back, with leader migration on both sides", to(upstream, migrationFlag)},
	{"there again, without leader migration", to(outrigger)},
	{"back, upstream's without leader election", to(upstream, unelected)},
	{"Outrigger's records removed, under upstream's", (*mover).forget},
	{"there, from one without leader election, an edit taken back", change{next: outrigger, takesBack: true}.take},
}

func to(next side, flags ...string) func(*mover, context.Context, string) error {
	return change{next: next, flags: flags}.take
}

func (c change) take(m *mover, ctx context.Context, title string) error { return m.move(ctx, title, c) }
