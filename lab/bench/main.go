// Command bench measures upstream's library and Outrigger on one API server: side by side, or with `traffic` as first
// argument what clients of a load balancer see.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"outrigger.dev/bench/sidebyside"
	"outrigger.dev/bench/traffic"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	run, arguments := sidebyside.Run, os.Args[1:]
	if len(arguments) > 0 && arguments[0] == "traffic" {
		run, arguments = traffic.Run, arguments[1:]
	}
	if err := run(ctx, arguments); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}
