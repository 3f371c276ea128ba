package provider

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
)

const (
	// targetBytes of a message of a list.
	targetBytes = 1 << 20
	// targetAge is when a message that grows slowly is sent: the caller cancels after 60 s of silence.
	targetAge = 10 * time.Second
	// elementOverhead is what a repeated field adds to each element: its tag and its length.
	elementOverhead = 6
)

// gather sends the elements of a list in messages of about 1 MiB. A caller that reads slowly makes
// add wait, so that memory stays bounded.
type gather[E proto.Message, M any] struct {
	send     func(*M) error
	message  func(elements []E, complete bool) *M
	maxBytes int

	elements []E
	bytes    int
	since    time.Time
}

// add hands over one element. It fails once the caller is gone, and where the element alone is larger
// than any message the caller accepts, or cannot be encoded.
func (g *gather[E, M]) add(element E) error {
	if !element.ProtoReflect().IsValid() {
		return fmt.Errorf("the provider listed an element that is nil")
	}
	encoded, err := proto.Marshal(element)
	if err != nil {
		return fmt.Errorf("an element of the list cannot be sent: %w", err)
	}
	bytes := len(encoded) + elementOverhead
	if bytes > g.maxBytes {
		return fmt.Errorf("an element of the list has %d bytes, more than the %d that the controller accepts in "+
			"one message", bytes, g.maxBytes)
	}
	if len(g.elements) > 0 && (g.bytes+bytes > min(targetBytes, g.maxBytes) || time.Since(g.since) >= targetAge) {
		if err := g.flush(false); err != nil {
			return err
		}
	}
	if len(g.elements) == 0 {
		g.since = time.Now()
	}
	g.elements = append(g.elements, element)
	g.bytes += bytes
	return nil
}

// flush sends what was gathered; complete marks the last message of a whole list.
func (g *gather[E, M]) flush(complete bool) error {
	elements := g.elements
	g.elements, g.bytes = nil, 0
	return g.send(g.message(elements, complete))
}
