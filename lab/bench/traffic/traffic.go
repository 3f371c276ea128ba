// Package traffic measures what clients of a load balancer see of upstream's controller and of Outrigger's, both in front of the
// same provider of a cloud of network namespaces.
package traffic

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"time"

	"outrigger.dev/bench/report"
	"outrigger.dev/bench/rig"
)

type options struct {
	rig.Session
	rounds  int
	timeout time.Duration
}

// controllers have their default flags. The testbed's own controller gives Nodes their Pod CIDRs for both, since upstream's library
// has no loop for them.
var controllers = []struct {
	id, title string
	start     rig.Starter
}{
	{"upstream", "upstream", rig.OverContract("--allocate-node-cidrs", "--cluster-cidr="+podCIDRs)},
	{"outrigger", "Outrigger", rig.BesideProvider("--allocate-node-cidrs", "--cluster-cidr="+podCIDRs, "--controllers=*,-"+ipam)},
}

const (
	ipam     = "node-ipam-controller"
	podCIDRs = "10.244.0.0/16"
)

// Run runs all rounds, each on a new cluster: a machine that was deleted does not come back.
func Run(ctx context.Context, arguments []string) error {
	o := &options{Session: rig.Session{Programs: []string{rig.UpstreamProgram}}}
	flags := flag.NewFlagSet("bench traffic", flag.ContinueOnError)
	flags.IntVar(&o.rounds, "rounds", 5, "`number` of rounds, every other one in the reverse order")
	flags.DurationVar(&o.timeout, "timeout", 15*time.Minute, "longest `time` of a controller in a round")
	if err := o.Parse(flags, arguments); err != nil {
		return err
	}
	if o.rounds < 1 {
		return errors.New("--rounds must be at least 1")
	}
	return o.RunEach(ctx, []string{mark}, func(start rig.Start) (report.Result, error) { return o.all(ctx, start) })
}

func (o *options) all(ctx context.Context, start rig.Start) (report.Result, error) {
	image, err := rig.BuildImage(ctx)
	if err != nil {
		return nil, err
	}
	result := &outcome{Rounds: o.rounds}
	for _, controller := range controllers {
		result.Contestants = append(result.Contestants, &report.Contestant{ID: controller.id, Title: controller.title})
	}
	order := []int{0, 1}
	for round := range o.rounds {
		for _, index := range order {
			rig.Note("round %d of %d: %s", round+1, o.rounds, controllers[index].title)
			if err := o.measure(ctx, start, image, index, result); err != nil {
				return nil, fmt.Errorf("%s: %w", controllers[index].title, err)
			}
		}
		slices.Reverse(order)
	}
	return result, nil
}

// measure is one round of one controller.
func (o *options) measure(ctx context.Context, start rig.Start, image string, index int, result *outcome) error {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	r, err := start(ctx, fmt.Sprintf("--nodes=%d", machines), "--image="+image, "--controller-arg=--controllers="+ipam)
	if err != nil {
		return err
	}
	defer r.Close()
	if result.conditions, err = r.Conditions(); err != nil {
		return err
	}
	controller := controllers[index]
	round := &round{Rig: r, name: controller.id, start: controller.start, add: func(name string, value float64) {
		rig.Note("  %s: %s", cmp.Or(titles[name], name), report.Cell([]float64{value}, false))
		result.Contestants[index].Add(map[string]float64{name: value})
	}}
	return round.play(ctx)
}
