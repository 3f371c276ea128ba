// This file has what all commands share: flags, the folder of a run, and the place of its result.

package rig

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"time"

	"outrigger.dev/bench/report"
)

// Session is one run of a command: the programs that it needs, and where its result goes.
type Session struct {
	// Latency is the time of one call to the cloud.
	Latency time.Duration
	// Programs of the bench that are built.
	Programs []string

	binaries string
	markdown []string
	keep     bool
}

// Parse reads a command's flags, those that all commands have besides its own.
func (s *Session) Parse(flags *flag.FlagSet, arguments []string) error {
	flags.StringVar(&s.binaries, "binaries", "", "`folder` with cloud-controller-manager, provider-mock, outrigger-testbed and those of the lab "+
		"(default: cargo builds them with --release)")
	flags.Func("markdown", "`file` with the marks of a table, which is written there; may be repeated", func(file string) error {
		s.markdown = append(s.markdown, file)
		return nil
	})
	flags.BoolVar(&s.keep, "keep", false, "leave logs, journals and the audit log behind")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("there are no arguments, only flags: %q", flags.Args())
	}
	return nil
}

// Run measures on a new control plane; see RunEach.
func (s *Session) Run(ctx context.Context, marks []string, measure func(*Rig) (report.Result, error)) error {
	return s.RunEach(ctx, marks, func(start Start) (report.Result, error) {
		r, err := start(ctx)
		if err != nil {
			return nil, err
		}
		defer r.Close()
		return measure(r)
	})
}

// Start starts a control plane; flags are further ones of `outrigger-testbed up`, or with --nodes first of `outrigger-lab up`.
type Start func(ctx context.Context, flags ...string) (*Rig, error)

// RunEach measures on control planes that measure starts, shows the result and writes it between the marks of the files of
// --markdown. A result with an error is shown, but not written. Logs stay after an error.
func (s *Session) RunEach(ctx context.Context, marks []string, measure func(Start) (report.Result, error)) error {
	for _, file := range s.markdown {
		if err := report.CheckMarks(file, marks...); err != nil {
			return err
		}
	}
	dir, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return err
	}
	result, err := s.measured(ctx, dir, measure)
	if err != nil || s.keep {
		Note("logs are in %s", dir)
	} else {
		err = os.RemoveAll(dir)
	}
	if result != nil {
		if shown := report.Show(os.Stdout, result); shown != nil {
			return shown
		}
	}
	for _, file := range s.markdown {
		if err != nil {
			return err
		}
		err = report.WriteInto(file, result)
	}
	return err
}

func (s *Session) measured(ctx context.Context, dir string, measure func(Start) (report.Result, error)) (report.Result, error) {
	paths, err := build(ctx, s.binaries, dir, s.Programs)
	if err != nil {
		return nil, err
	}
	planes := 0
	return measure(func(ctx context.Context, flags ...string) (*Rig, error) {
		planes++
		own := filepath.Join(dir, strconv.Itoa(planes))
		if err := os.Mkdir(own, 0o755); err != nil {
			return nil, err
		}
		Note("starting a control plane")
		return newRig(ctx, s, paths, own, flags)
	})
}

// Conditions of a measurement that starts now.
func (r *Rig) Conditions() (report.Conditions, error) {
	server, err := r.Client.Discovery().ServerVersion()
	if err != nil {
		return report.Conditions{}, err
	}
	return report.Conditions{
		Date: time.Now().UTC().Format(time.DateOnly), Kubernetes: server.GitVersion, Upstream: upstreamVersion(),
	}, nil
}

// upstreamVersion is the version of upstream's library in go.mod.
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

// Note prints progress to standard error: standard output has the result only.
func Note(format string, values ...any) {
	fmt.Fprintf(os.Stderr, "%s %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, values...))
}
