package provider

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
)

// uploadPatience is the deadline of an upload whose caller names none.
const uploadPatience = time.Minute

// nodeSetsRPC applies uploads as a whole or not at all.
type nodeSetsRPC struct {
	v1.UnimplementedNodeSetsServiceServer
	core     *core
	nodeSets *nodeSets
}

type uploadStream = grpc.ClientStreamingServer[v1.SyncNodeSetRequest, v1.SyncNodeSetResponse]

func (s *nodeSetsRPC) SyncNodeSet(in uploadStream) error {
	ctx, cancel := in.Context(), context.CancelFunc(func() {})
	if _, ok := ctx.Deadline(); !ok {
		ctx, cancel = context.WithTimeout(ctx, uploadPatience)
	}
	defer cancel()
	first, err := received(ctx, in)
	if err != nil {
		return err
	}
	begin, ok := first.GetPart().(*v1.SyncNodeSetRequest_Begin)
	if !ok {
		return Errorf(InvalidRequest, "the upload does not start with begin")
	}
	call, err := s.core.admit(ctx, "SyncNodeSet", reads, begin.Begin.GetContext())
	if err != nil {
		return err
	}
	response, err := run(call, ctx, func(ctx context.Context) (*v1.SyncNodeSetResponse, error) {
		return s.apply(ctx, begin.Begin, in)
	})
	if err != nil {
		return err
	}
	return in.SendAndClose(response)
}

func (s *nodeSetsRPC) apply(ctx context.Context, begin *v1.NodeSetBegin, in uploadStream) (*v1.SyncNodeSetResponse, error) {
	up, err := beginUpload(s.nodeSets, begin)
	if err != nil {
		return nil, err
	}
	for {
		message, err := received(ctx, in)
		if err != nil {
			return nil, err
		}
		switch part := message.GetPart().(type) {
		case *v1.SyncNodeSetRequest_Chunk:
			if err := up.chunk(part.Chunk); err != nil {
				return nil, err
			}
		case *v1.SyncNodeSetRequest_Commit:
			return up.commit(part.Commit)
		case *v1.SyncNodeSetRequest_Begin:
			return nil, Errorf(InvalidRequest, "the upload begins twice")
		default:
			return nil, Errorf(InvalidRequest, "a message of the upload has no part")
		}
	}
}

// received waits for the next message, at most until ctx ends. The end of the stream is an error: a
// cancelled upload looks like one too.
func received(ctx context.Context, in uploadStream) (*v1.SyncNodeSetRequest, error) {
	got := make(chan outcome[*v1.SyncNodeSetRequest], 1)
	// Ends at the latest with the stream, which ends when its RPC returns.
	go func() {
		message, err := in.Recv()
		got <- outcome[*v1.SyncNodeSetRequest]{message, err}
	}()
	select {
	case result := <-got:
		var named *Error
		switch {
		case errors.Is(result.err, io.EOF):
			return nil, Errorf(InvalidRequest, "the upload ended without commit; nothing was applied")
		case result.err != nil && ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.As(result.err, &named):
			return nil, named
		case result.err != nil:
			return nil, fmt.Errorf("the upload broke: %w", result.err)
		}
		return result.value, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
