// This file sends a list as messages of limited size.

package provider

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

const (
	// targetBytes of a message of a list.
	targetBytes = 1 << 20
	// targetAge is when a message that grows slowly is sent: the caller cancels after Method.MaxSilence.
	targetAge = 10 * time.Second
	// elementOverhead is what a repeated field adds to each element: its tag and its length.
	elementOverhead = 6
)

// list sends what the handler hands over, in messages of about 1 MiB; the last one says that the list is complete. A
// caller that reads slowly makes the handler wait, so that memory stays bounded.
func list[E proto.Message, M any, PM interface {
	*M
	proto.Message
}](c *core, request request, out grpc.ServerStreamingServer[M], handler func(ctx context.Context, send func(E) error) error) error {
	return stream(c, request, out, func(ctx context.Context, send func(*M) error) error {
		maxBytes := CallOf(ctx).maxSendBytes
		page, bytes, since := new(M), 0, time.Now()
		field := func(name protoreflect.Name) protoreflect.FieldDescriptor {
			return PM(page).ProtoReflect().Descriptor().Fields().ByName(name)
		}
		err := handler(ctx, func(element E) error {
			size := proto.Size(element) + elementOverhead
			if bytes > 0 && (bytes+size > min(targetBytes, maxBytes) || time.Since(since) >= targetAge) {
				full := page
				page, bytes = new(M), 0
				if err := send(full); err != nil {
					return err
				}
			}
			if bytes == 0 {
				since = time.Now()
			}
			PM(page).ProtoReflect().Mutable(field("items")).List().Append(protoreflect.ValueOfMessage(element.ProtoReflect()))
			bytes += size
			return nil
		})
		if err != nil {
			return err
		}
		PM(page).ProtoReflect().Set(field("complete"), protoreflect.ValueOfBool(true))
		return send(page)
	})
}
