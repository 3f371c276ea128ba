// Package migration carries docs/migrate.md out, there and back, and judges each step: what it did to the objects that stood, and
// to the cloud.
package migration

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"time"

	"outrigger.dev/bench/report"
	"outrigger.dev/bench/rig"
)

type options struct {
	rig.Session
	nodes, services int
	timeout         time.Duration
}

// Run takes all steps, and fails if one did more than it must.
func Run(ctx context.Context, arguments []string) error {
	o, err := parse(arguments)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	return o.Session.Run(ctx, []string{mark}, func(r *rig.Rig) (report.Result, error) {
		result, err := o.all(ctx, r)
		if err != nil {
			return nil, err
		}
		if wrong := result.Wrong(); len(wrong) > 0 {
			return result, fmt.Errorf("the steps did more than they must:\n%s", strings.Join(wrong, "\n"))
		}
		return result, nil
	})
}

func parse(arguments []string) (*options, error) {
	o := &options{Session: rig.Session{
		Latency: 20 * time.Millisecond, Durable: true, Programs: []string{rig.UpstreamProgram, rig.ProviderProgram},
	}}
	flags := flag.NewFlagSet("bench migrate", flag.ContinueOnError)
	flags.IntVar(&o.nodes, "nodes", 20, "`number` of nodes that stand, one of them powered off")
	flags.IntVar(&o.services, "services", 10, "`number` of Services that stand, one of them paused for good")
	flags.DurationVar(&o.timeout, "timeout", 10*time.Minute, "longest `time` of all steps")
	if err := o.Parse(flags, arguments); err != nil {
		return nil, err
	}
	if o.nodes < 3 || o.services < 4 {
		return nil, errors.New("--nodes must be at least 3, --services at least 4")
	}
	return o, nil
}

func (o *options) all(ctx context.Context, r *rig.Rig) (*Report, error) {
	conditions, err := r.Conditions()
	if err != nil {
		return nil, err
	}
	m := &mover{Rig: r, report: &Report{Conditions: conditions, Nodes: o.nodes, Services: o.services}}
	defer m.stop()
	if err := m.prepare(ctx); err != nil {
		return nil, fmt.Errorf("before the first step: %w", err)
	}
	for _, step := range steps {
		rig.Note("%s", step.title)
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

const unelected = "--leader-elect=false"

// steps in their order: each begins where the one before it ended, with upstream's controller at first.
var steps = []step{
	{"`--plan` beside upstream's", (*mover).plan},
	{"all paused but one, under upstream's", (*mover).pauseAllButOne},
	{"there, by the shared Lease", to(rig.Outrigger)},
	{"all resumed but one", (*mover).resume},
	{"back", to(rig.Upstream)},
	{"`--plan` beside upstream's once more", (*mover).plan},
	{"there again, an edit taken back", change{next: rig.Outrigger, takesBack: true}.take},
	{"back, with nothing new", change{next: rig.Upstream, isQuiet: true}.take},
	{"there again, with nothing new", change{next: rig.Outrigger, isQuiet: true}.take},
	{"Outrigger again, with nothing new", change{next: rig.Outrigger, isQuiet: true}.take},
	{"back, a machine gone", change{next: rig.Upstream, loses: worker(1)}.take},
	{"there, a machine gone", change{next: rig.Outrigger, loses: worker(2)}.take},
	{"back, upstream's without leader election", to(rig.Upstream, unelected)},
	{"Outrigger's records removed, under upstream's", (*mover).forget},
	{"there, from one without leader election, an edit taken back", change{next: rig.Outrigger, takesBack: true}.take},
}

func to(next string, flags ...string) func(*mover, context.Context, string) error {
	return change{next: next, flags: flags}.take
}

func (c change) take(m *mover, ctx context.Context, title string) error { return m.move(ctx, title, c) }
