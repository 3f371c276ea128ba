// A fake of Google's Compute API on a port of its own, which outlives a provider that is killed and started again.
package main

import (
	"flag"
	"log"
	"net"
	"net/http"
	"os"
	"strings"

	"outrigger.dev/adapters/go/published"
)

func main() {
	address := flag.String("listen", "127.0.0.1:8793", "`address` to serve on")
	machines := flag.String("machines", "", "`names` of the machines, separated by commas")
	config := flag.String("cloud-config", "", "`file` that is written once it listens: the provider's cloud config")
	flag.Parse()
	listener, err := net.Listen("tcp", *address)
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(*config, []byte(published.Config(*address)), 0o600); err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.Serve(listener, published.NewCompute(strings.Split(*machines, ","))))
}
