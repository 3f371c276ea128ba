// Batch RPCs answer with one result for each item of the request; this file has the results and their encoding.

package provider

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
)

// item is an item of a batch, such as *v1.Node.
type item interface{ ItemKey() string }

// Result is the answer about one item of a batch. Exactly one of Found, Absent, NotManaged and Err is set.
type Result[T proto.Message] struct {
	// Found is the object that was asked about.
	Found T
	// Absent says that there is none.
	Absent *v1.Absent
	// NotManaged says that it is another provider's.
	NotManaged *v1.NotManaged
	// Effects are events, annotations and conditions of the Node; a volume has none.
	Effects *v1.KubernetesEffects
	// Err is why there is no answer; nothing changes.
	Err error
}

// Results of a batch by the ItemKey of each item. An item without one is reported as failed.
type Results[T proto.Message] map[string]Result[T]

// Found says that the object exists.
func Found[T proto.Message](object T) Result[T] { return Result[T]{Found: object} }

// Confirmed is the absence of an object that the cloud was asked about during this call, with the permission to
// see all of its kind, and that it does not have. An operator reads the reason.
func Confirmed(reason string) *v1.Absent {
	return &v1.Absent{Certainty: v1.AbsenceCertainty_ABSENCE_CERTAINTY_CONFIRMED, Reason: reason}
}

// WithEffects adds events, annotations and conditions of the Node.
func (r Result[T]) WithEffects(effects *v1.KubernetesEffects) Result[T] {
	r.Effects = effects
	return r
}

// batchRequest is the request of a batch.
type batchRequest[I item] interface {
	request
	GetItems() []I
}

// batch answers each item of a request with the result that the handler has for it. S is its response.
func batch[S any, I item, T proto.Message, PS interface {
	*S
	proto.Message
}](c *core, ctx context.Context, request batchRequest[I], handler func(context.Context) (Results[T], error)) (*S, error) {
	return run(c, ctx, request, func(ctx context.Context) (*S, error) {
		began := time.Now()
		results, err := handler(ctx)
		if err != nil {
			return nil, err
		}
		response := new(S)
		fields := PS(response).ProtoReflect()
		sent := fields.Mutable(fields.Descriptor().Fields().ByName("results")).List()
		for _, item := range request.GetItems() {
			key := item.ItemKey()
			results[key].put(sent.AppendMutable().Message(), key, time.Since(began))
			delete(results, key)
		}
		for key := range results {
			CallOf(ctx).Log.Warn("a batch returned a result for an item that the request does not have", "item", key)
		}
		return response, fit(ctx, PS(response), sent)
	})
}

// put writes the result into its message, whose fields have the same names in each batch. took is how long the call
// has run.
func (r Result[T]) put(sent protoreflect.Message, key string, took time.Duration) {
	fields := sent.Descriptor().Fields()
	set := func(name protoreflect.Name, value proto.Message) {
		sent.Set(fields.ByName(name), protoreflect.ValueOfMessage(value.ProtoReflect()))
	}
	sent.Set(fields.ByName("key"), protoreflect.ValueOfString(key))
	hasEffects := fields.ByName("effects") != nil
	if hasEffects && r.Effects != nil {
		set("effects", r.Effects)
	}
	err := r.Err
	switch {
	case err != nil:
	case r.Absent != nil:
		absent := proto.CloneOf(r.Absent)
		absent.Reason = cut(absent.Reason, maxMessageBytes)
		// An observation from before the call is a cache, whatever the vendor says.
		if absent.GetAge().AsDuration() > took {
			absent.Certainty = v1.AbsenceCertainty_ABSENCE_CERTAINTY_NOT_VISIBLE_YET
		}
		set("absent", absent)
	case r.NotManaged != nil:
		set("not_managed", &v1.NotManaged{Reason: cut(r.NotManaged.Reason, maxMessageBytes)})
	case r.Found.ProtoReflect().IsValid():
		set("found", r.Found)
	default:
		err = errors.New("the provider returned no result for this item")
	}
	if err == nil {
		if _, unsendable := proto.Marshal(sent.Interface()); unsendable != nil {
			err = fmt.Errorf("the result cannot be sent: %w", unsendable)
			r.Effects = nil
		}
	}
	switch {
	case err == nil:
	case !hasEffects:
		set("error", wholeStatus(err))
	default:
		status, effects := itemStatus(err)
		set("error", status)
		if r.Effects == nil {
			sent.Clear(fields.ByName("effects"))
			if effects != nil {
				set("effects", effects)
			}
		}
	}
}

// fit leaves effects out of a response that is too large with them, for the caller must learn the outcomes. It refuses
// a response that the caller would refuse, so that the call ends with a reason.
func fit(ctx context.Context, response proto.Message, results protoreflect.List) error {
	call := CallOf(ctx)
	whole := proto.Size(response)
	if whole <= call.maxSendBytes {
		return nil
	}
	for index := range results.Len() {
		result := results.Get(index).Message()
		if effects := result.Descriptor().Fields().ByName("effects"); effects != nil {
			result.Clear(effects)
		}
	}
	bytes := proto.Size(response)
	if bytes < whole {
		call.Log.Warn("the effects of a batch are left out, since its answer is too large; send fewer or shorter ones",
			"bytes", whole, "limit", call.maxSendBytes)
	}
	if bytes > call.maxSendBytes {
		return fmt.Errorf("the answer has %d bytes, more than the %d that the controller accepts; lower max_batch_size "+
			"of the capability", bytes, call.maxSendBytes)
	}
	return nil
}
