// This file counts the calls to the cloud.

package rig

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
)

// ChangesCloud tells the calls that change a cloud from lookups, by the operation's name.
func ChangesCloud(operation string) bool {
	isLookup := func(prefix string) bool { return strings.HasPrefix(operation, prefix) }
	return !slices.ContainsFunc([]string{"Get", "List", "Find", "Instance"}, isLookup)
}

// lineCounts counts the lines of a journal, in which the Go fake names its calls. It reads each line once.
func lineCounts(journal string) func() (map[string]int, error) {
	var end int64
	counts := map[string]int{}
	return func() (map[string]int, error) {
		file, err := os.Open(journal)
		if os.IsNotExist(err) { // there is none before the first call
			return map[string]int{}, nil
		}
		if err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }()
		text, err := io.ReadAll(io.NewSectionReader(file, end, math.MaxInt64-end))
		if err != nil {
			return nil, err
		}
		complete := text[:bytes.LastIndexByte(text, '\n')+1]
		end += int64(len(complete))
		for line := range bytes.Lines(complete) {
			counts[strings.TrimSpace(string(line))]++
		}
		return maps.Clone(counts), nil
	}
}

// mockCounters asks the mock how often it has called its cloud.
func mockCounters(socket string) func() (map[string]int, error) {
	client := http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}
	return func() (map[string]int, error) {
		answer, err := client.Post("http://mock/v1", "application/json", strings.NewReader(`{"counters": null}`))
		if err != nil {
			return nil, fmt.Errorf("the mock's counters: %w", err)
		}
		defer func() { _ = answer.Body.Close() }()
		var counters struct {
			Cloud map[string]struct{ Served int } `json:"cloud"`
		}
		if err := json.NewDecoder(answer.Body).Decode(&counters); err != nil {
			return nil, fmt.Errorf("the mock's counters: %w", err)
		}
		counts := map[string]int{}
		for operation, count := range counters.Cloud {
			counts[operation] = count.Served
		}
		return counts, nil
	}
}
