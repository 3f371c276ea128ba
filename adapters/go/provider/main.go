// This file has the command line of a provider: serve and probe.

package provider

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Main is a provider's main: `serve` (the default) and `probe`, for exec probes of the kubelet. build
// makes the provider before the socket appears; an error of it is logged and ends the process with
// code 1, a signal that comes before ends its context and the process with code 0.
func Main(build func(context.Context) (*Provider, error)) {
	MainWithFlags(noFlags, build)
}

// MainWithFlags is Main for a provider with flags of its own, which register adds to those of serve.
func MainWithFlags(register func(*flag.FlagSet), build func(context.Context) (*Provider, error)) {
	os.Exit(execute(os.Args[1:], os.Stdout, os.Stderr, register, build))
}

func execute(args []string, out, errs io.Writer, register func(*flag.FlagSet), build func(context.Context) (*Provider, error)) int {
	action := "serve"
	if len(args) > 0 && (args[0] == "serve" || args[0] == "probe") {
		action, args = args[0], args[1:]
	}
	flags := flag.NewFlagSet("provider "+action, flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.Usage = func() { usage(flags, action) }
	endpointText := os.Getenv(EndpointEnv)
	if endpointText == "" {
		endpointText = DefaultEndpoint
	}
	flags.StringVar(&endpointText, "endpoint", endpointText,
		"socket of the provider, as `unix:///absolute/path`; also $"+EndpointEnv)
	var ready bool
	var timeout uint
	if action == "probe" {
		flags.BoolVar(&ready, "ready", false, "fail also while the provider is starting (readiness probe)")
		flags.UintVar(&timeout, "timeout", 4, "`seconds` to wait for the answers, 1 to 60; keep it below timeoutSeconds")
	} else {
		register(flags)
	}
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case flags.NArg() > 0:
		_, _ = fmt.Fprintf(errs, "unknown argument %q; the commands are serve and probe\n", flags.Arg(0))
		return 2
	case action == "probe" && (timeout < 1 || timeout > 60):
		_, _ = fmt.Fprintf(errs, "--timeout is %d; use 1 to 60 seconds\n", timeout)
		return 2
	}
	endpoint, err := ParseEndpoint(endpointText)
	if err != nil {
		_, _ = fmt.Fprintln(errs, err)
		return 2
	}
	if action == "probe" {
		sentence, err := Probe(endpoint, ready, time.Duration(timeout)*time.Second)
		if err != nil {
			_, _ = fmt.Fprintln(errs, err)
			return 1
		}
		_, _ = fmt.Fprintln(out, sentence)
		return 0
	}
	InitLogging()
	if err := makeAndServe(endpoint, build); err != nil {
		logger().Error("provider ended", "error", err.Error())
		return 1
	}
	return 0
}

func usage(flags *flag.FlagSet, action string) {
	out := flags.Output()
	if action == "serve" {
		_, _ = fmt.Fprintln(out, "A cloud provider for Outrigger. Commands: serve (default), probe.")
	} else {
		_, _ = fmt.Fprintln(out, "Asks a running provider how it is; for exec probes.")
	}
	_, _ = fmt.Fprintln(out, "\nFlags:")
	flags.PrintDefaults()
}

// makeAndServe catches signals from the start: as process 1 of a container a provider would not even
// die of one that it does not catch.
func makeAndServe(endpoint Endpoint, build func(context.Context) (*Provider, error)) error {
	signals := newSignals()
	defer signal.Stop(signals)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	made := madeBy(ctx, build)
	select {
	case result := <-made:
		if result.err != nil {
			return result.err
		}
		return result.value.serveSignalled(endpoint, signals)
	case caught := <-signals:
		logger().Info("stopped before serving", "signal", signalName(caught))
		return nil
	}
}

func newSignals() chan os.Signal {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	return signals
}

func madeBy(ctx context.Context, build func(context.Context) (*Provider, error)) <-chan outcome[*Provider] {
	made := make(chan outcome[*Provider], 1)
	go func() {
		provider, err := build(ctx)
		if err == nil && provider == nil {
			err = errors.New("the provider's constructor returned neither a provider nor an error")
		}
		made <- outcome[*Provider]{provider, err}
	}()
	return made
}

func noFlags(*flag.FlagSet) {}
