// Command fake-digitalocean serves the fake of DigitalOcean's API that the tests use, for trying the
// provider without an account.
package main

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"outrigger.dev/providers/digitalocean/internal/fakecloud"
)

func main() {
	if err := run(); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "fake-digitalocean:", err)
		os.Exit(1)
	}
}

func run() error {
	address := flag.String("listen", "127.0.0.1:8780", "`address` to serve on")
	token := flag.String("token", "fake", "`token` that is taken")
	droplets := flag.String("droplets", "", "`names` of the droplets, separated by commas; with =off one that is off")
	provisioning := flag.Duration("provisioning", 2*time.Second, "`time` until a load balancer is active")
	perHour := flag.Int("requests-per-hour", 1_000_000, "`number` of requests until the rate limit answers")
	flag.Parse()
	cloud := fakecloud.New(*token)
	// Ids begin at 1001.
	cloud.Provisioning, cloud.RequestsPerHour = *provisioning, *perHour
	for name := range strings.SplitSeq(*droplets, ",") {
		name, off := strings.CutSuffix(name, "=off")
		if name == "" {
			continue
		}
		id := cloud.AddDroplet(name)
		if off {
			cloud.ChangeDroplet(id, func(droplet *fakecloud.Droplet) { droplet.Status = "off" })
		}
		_, _ = fmt.Printf("droplet %s digitalocean://%d\n", name, id)
	}
	listener, err := net.Listen("tcp", *address)
	if err != nil {
		return err
	}
	_, _ = fmt.Printf("listening on http://%s\n", listener.Addr())
	mux := http.NewServeMux()
	mux.Handle("/v2/", cloud)
	for name, refusal := range map[string]fakecloud.Refusal{
		"on": fakecloud.RefuseNothing, "off": fakecloud.RefuseAsDown, "hangs": fakecloud.AnswerNothing,
		"limited": fakecloud.RefuseAsTooMany, "locked": fakecloud.RefuseTokens,
	} {
		mux.HandleFunc("POST /control/"+name, func(http.ResponseWriter, *http.Request) {
			cloud.Change(func(c *fakecloud.Cloud) { c.Refusal = refusal })
		})
	}
	mux.HandleFunc("POST /control/room", func(out http.ResponseWriter, request *http.Request) {
		room, err := strconv.Atoi(request.FormValue("load-balancers"))
		if err != nil {
			http.Error(out, err.Error(), http.StatusBadRequest)
			return
		}
		cloud.Change(func(c *fakecloud.Cloud) { c.MaxLoadBalancers = room })
	})
	for name, count := range map[string]func() int{"changes": cloud.Changes, "calls": cloud.Requests} {
		mux.HandleFunc("GET /control/"+name, func(out http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintln(out, count())
		})
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() { <-signals; _ = server.Close() }()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
