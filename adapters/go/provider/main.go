// This file has the command line of a provider: serve and probe.

package provider

import (
	"cmp"
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

// Main is a provider's main function. Its commands are `serve` (the default) and `probe`, for exec probes of the
// kubelet. serve calls build before the socket appears. If build fails, the error is logged and the exit code is 1. A
// signal during build cancels its context and ends the process with exit code 0.
func Main(build func(context.Context) (*Provider, error)) {
	MainWithFlags(noFlags, build)
}

// MainWithFlags is Main for a provider that has its own flags: register adds them to the flags of serve.
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
	endpointText := flags.String("endpoint", cmp.Or(os.Getenv(EndpointEnv), DefaultEndpoint),
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
	endpoint, err := ParseEndpoint(*endpointText)
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
	if err := serveUntilSignal(endpoint, build); err != nil {
		logger().Error("provider ended", "error", err.Error())
		return 1
	}
	return 0
}

// serveUntilSignal catches signals before build runs: process 1 of a container ignores every signal that it does not
// catch.
func serveUntilSignal(endpoint Endpoint, build func(context.Context) (*Provider, error)) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	context.AfterFunc(ctx, stop) // a second one ends the process, unless it is process 1
	built, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		provider, err := build(ctx)
		close(built)
		if err == nil && provider == nil {
			err = errors.New("the provider's constructor returned neither a provider nor an error")
		}
		if err == nil {
			err = provider.ServeUntil(ctx, endpoint)
		}
		ended <- err
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	select {
	case <-built:
		logger().Info("stopping after a signal")
		return <-ended
	default:
		logger().Info("stopped by a signal before serving")
		return nil
	}
}

func noFlags(*flag.FlagSet) {}
