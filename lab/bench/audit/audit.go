// Package audit reads the audit log of an API server, which shows the sender of each request.
package audit

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// Policy has one line for each request that the API server has answered, and one for each watch that began.
const Policy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: None, nonResourceURLs: ["*"]}
- {level: Metadata}
`

// Request is one that the API server answered.
type Request struct {
	Verb string
	// Resource, with its subresource after a slash.
	Resource string
	// Name of the object; that of an event begins with the name of its object and a dot.
	Name  string
	At    time.Time
	agent string
}

// Changes says whether the request writes; those of the election itself do not count.
func (r Request) Changes() bool {
	return r.Resource != "leases" && slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, r.Verb)
}

// Log is an audit log that grows.
type Log struct {
	reader   *bufio.Reader
	partial  string
	requests []Request
}

// Open a log that the API server has made.
func Open(path string) (*Log, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return &Log{reader: bufio.NewReader(file)}, nil
}

// read adds the lines that were appended.
func (l *Log) read() error {
	for {
		text, err := l.reader.ReadString('\n')
		l.partial += text
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := l.add(l.partial); err != nil {
			return err
		}
		l.partial = ""
	}
}

func (l *Log) add(line string) error {
	var event struct {
		Stage          string    `json:"stage"`
		Verb           string    `json:"verb"`
		UserAgent      string    `json:"userAgent"`
		StageTimestamp time.Time `json:"stageTimestamp"`
		ObjectRef      struct {
			Resource    string `json:"resource"`
			Subresource string `json:"subresource"`
			Name        string `json:"name"`
		} `json:"objectRef"`
	}
	if err := json.Unmarshal([]byte(line), &event); err != nil {
		return fmt.Errorf("a line of the audit log: %w", err)
	}
	// A watch counts when it begins; when it ends is chance.
	if (event.Verb == "watch") != (event.Stage == "ResponseStarted") {
		return nil
	}
	resource := event.ObjectRef.Resource
	if event.ObjectRef.Subresource != "" {
		resource += "/" + event.ObjectRef.Subresource
	}
	l.requests = append(l.requests, Request{
		agent: event.UserAgent, Verb: event.Verb, Resource: resource, Name: event.ObjectRef.Name,
		At: event.StageTimestamp,
	})
	return nil
}

// Mark is a place in the log: its end.
func (l *Log) Mark() (int, error) {
	err := l.read()
	return len(l.requests), err
}

// Since are the requests after a mark of a program, whose user agent begins with its name and a slash.
func (l *Log) Since(mark int, agent string) ([]Request, error) {
	if err := l.read(); err != nil {
		return nil, err
	}
	var requests []Request
	for _, request := range l.requests[mark:] {
		if strings.HasPrefix(request.agent, agent+"/") {
			requests = append(requests, request)
		}
	}
	return requests, nil
}
