// Command prometheus reads a scrape from standard input with the parser that Prometheus scrapes with, and
// prints what is wrong with it, one line each. The argument is the scrape's Content-Type. Ends with 1
// if Prometheus would refuse the whole scrape.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 2 {
		return errors.New("usage: scrape-check CONTENT-TYPE < SCRAPE")
	}
	body, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	if err := parse(body, os.Args[1]); err != nil {
		return err
	}
	// The linter of `promtool check metrics`; it knows the older format only.
	if !strings.HasPrefix(os.Args[1], "text/plain") {
		return nil
	}
	problems, err := promlint.New(bytes.NewReader(body)).Lint()
	if err != nil {
		return err
	}
	for _, problem := range problems {
		fmt.Printf("%s: %s\n", problem.Metric, problem.Text)
	}
	return nil
}

// parse reports what Prometheus itself lets pass or only logs: samples twice, and samples without a type.
func parse(body []byte, contentType string) error {
	parser, err := textparse.New(body, contentType, labels.NewSymbolTable(), textparse.ParserOptions{})
	if err != nil {
		return err
	}
	samples := map[string]bool{}
	family, kind := "", model.MetricTypeUnknown
	for {
		entry, err := parser.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		switch entry {
		case textparse.EntryType:
			name, metricType := parser.Type()
			family, kind = string(name), metricType
		case textparse.EntrySeries:
			var series labels.Labels
			parser.Labels(&series)
			name := series.Get(model.MetricNameLabel)
			if samples[series.String()] {
				fmt.Printf("%s: %s is there twice\n", name, series)
			}
			samples[series.String()] = true
			if kind == model.MetricTypeUnknown || !strings.HasPrefix(name, family) {
				fmt.Printf("%s: no type is given\n", name)
			}
		}
	}
	if len(samples) == 0 {
		return errors.New("there is no sample in it")
	}
	return nil
}
