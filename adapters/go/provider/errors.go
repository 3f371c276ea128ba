// This file turns errors with a reason of the contract into gRPC statuses.

package provider

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
)

// errorDomain is google.rpc.ErrorInfo.domain of every deliberate error.
const errorDomain = "cloudprovider.v1"

// maxTextBytes of an error: clients refuse larger trailers.
const maxTextBytes = 1 << 10

// Reason decides what the controller does with an error; the comments of
// v1.ErrorReason say what each one leads to.
type Reason = v1.ErrorReason

// Reasons that a provider gives. The server gives those that are missing here
// (NOT_HANDSHAKED, VERSION_UNSUPPORTED, NODE_SET_UNKNOWN …) by itself.
const (
	// InvalidRequest: the request breaks the contract. Not repeated until the object changes.
	InvalidRequest = v1.ErrorReason_ERROR_REASON_INVALID_REQUEST
	// InvalidAnnotation: an annotation, or a field that each cloud reads its own way, has a bad value.
	// Shown, not repeated until the object changes.
	InvalidAnnotation = v1.ErrorReason_ERROR_REASON_INVALID_ANNOTATION
	// UnsupportedProtocol: the cloud cannot serve this protocol or port. Likewise.
	UnsupportedProtocol = v1.ErrorReason_ERROR_REASON_UNSUPPORTED_PROTOCOL
	// UnsupportedFeature: the cloud cannot serve something else that this object asks for. Likewise.
	UnsupportedFeature = v1.ErrorReason_ERROR_REASON_UNSUPPORTED_FEATURE
	// ConflictingOptions: an option of the load balancer contradicts the vendor's annotation, or another field; the message names both. Likewise.
	ConflictingOptions = v1.ErrorReason_ERROR_REASON_CONFLICTING_OPTIONS
	// MalformedProviderID: the provider's prefix, but no id of this cloud. Likewise.
	MalformedProviderID = v1.ErrorReason_ERROR_REASON_MALFORMED_PROVIDER_ID
	// MalformedVolumeHandle: the provider's driver, but no handle of this cloud. Likewise.
	MalformedVolumeHandle = v1.ErrorReason_ERROR_REASON_MALFORMED_VOLUME_HANDLE
	// DependencyNotReady: something else must happen first; repeated with back-off.
	DependencyNotReady = v1.ErrorReason_ERROR_REASON_DEPENDENCY_NOT_READY
	// ConflictingResource: a foreign cloud resource is in the way; repeated with back-off.
	ConflictingResource = v1.ErrorReason_ERROR_REASON_CONFLICTING_RESOURCE
	// OperationInProgress: another call works on this key; repeated after RetryAfter or 5 s.
	OperationInProgress = v1.ErrorReason_ERROR_REASON_OPERATION_IN_PROGRESS
	// Conflict: an optimistic lock of the cloud was lost; repeated with back-off.
	Conflict = v1.ErrorReason_ERROR_REASON_CONFLICT
	// RateLimited: the cloud said slow down; the whole class of calls pauses for RetryAfter.
	RateLimited = v1.ErrorReason_ERROR_REASON_RATE_LIMITED
	// QuotaExceeded: a limit of the account or of one object. Concerns this key only.
	QuotaExceeded = v1.ErrorReason_ERROR_REASON_QUOTA_EXCEEDED
	// Overloaded: this process is full; the class of calls pauses for 1 s.
	Overloaded = v1.ErrorReason_ERROR_REASON_OVERLOADED
	// CredentialsInvalid: the cloud refuses the credentials; all calls pause.
	CredentialsInvalid = v1.ErrorReason_ERROR_REASON_CREDENTIALS_INVALID
	// PermissionMissing: one cloud action is not allowed; the message names it.
	PermissionMissing = v1.ErrorReason_ERROR_REASON_PERMISSION_MISSING
	// CloudUnavailable: the cloud's API is down; the class of calls backs off.
	CloudUnavailable = v1.ErrorReason_ERROR_REASON_CLOUD_UNAVAILABLE
	// CapabilityDisabled: the method is not served, whatever the object.
	CapabilityDisabled = v1.ErrorReason_ERROR_REASON_CAPABILITY_DISABLED
	// CloudError: the cloud refused or failed this one object; the message is shown as it is.
	CloudError = v1.ErrorReason_ERROR_REASON_CLOUD_ERROR
)

// Error is a deliberate error of a provider: its Reason alone decides what the
// controller does. The text is cut to 1 KiB and ends up in events and logs, so it
// must contain no secrets. An error of another type tells the
// controller nothing about the outcome: it repeats the call with back-off.
//
// An object that does not exist is not an error but an answer.
type Error struct {
	// Reason says what the controller does.
	Reason Reason
	// RetryAfter is when to call again; 0: not named.
	RetryAfter time.Duration
	// Effects are events, annotations and conditions that the controller shall write in spite of the
	// failure. All details together have room for 4 KiB.
	Effects *v1.KubernetesEffects

	err error
}

// Errorf makes an Error; format and args are those of fmt.Errorf, %w included.
func Errorf(reason Reason, format string, args ...any) *Error {
	return &Error{Reason: reason, err: fmt.Errorf(format, args...)}
}

// RateLimitedFor says that the cloud limits the rate of calls. The controller pauses every call of
// the same class for retryAfter, at least one second.
func RateLimitedFor(retryAfter time.Duration, err error) *Error {
	limited := Errorf(RateLimited, "the cloud's API limits the rate of calls: %w", err)
	return limited.WithRetryAfter(max(retryAfter, time.Second))
}

// OptionPrefix is that of the annotations from which the controller reads options of load balancers (v1.LoadBalancerOptions).
const OptionPrefix = "outrigger.dev/load-balancer-"

// OptionConflict says that an option, by its name without OptionPrefix, asks for one value, and the vendor's annotation or a field
// of the Service, by its key, for another.
func OptionConflict(option, value, key, other string) *Error {
	return Errorf(ConflictingOptions, "%s%s and %s contradict each other, %q and %q: remove one of the two", OptionPrefix, option, key, value, other)
}

// FixedOption says that an option asks for another value than the load balancer was made with, which cannot change.
func FixedOption(option, value, made string) *Error {
	return Errorf(UnsupportedFeature, "%s%s asks for %q, and the load balancer was made with %q, which cannot change: set the option "+
		"back, or delete the Service and create it again", OptionPrefix, option, value, made)
}

// WithRetryAfter sets the time to call again, and returns the error.
func (e *Error) WithRetryAfter(after time.Duration) *Error {
	e.RetryAfter = after
	return e
}

// WithEffects sets the effects that go beside the error, and returns the error.
func (e *Error) WithEffects(effects *v1.KubernetesEffects) *Error {
	e.Effects = effects
	return e
}

// Error returns the text.
func (e *Error) Error() string {
	if e.err == nil {
		return reasonName(e.Reason)
	}
	return e.err.Error()
}

// Unwrap returns the error behind this one.
func (e *Error) Unwrap() error { return errors.Unwrap(e.err) }

// errCallerGone ends a call whose caller no longer waits.
var errCallerGone = errors.New("the caller no longer waits for this call")

var errShuttingDown = Errorf(v1.ErrorReason_ERROR_REASON_SHUTTING_DOWN, "this provider is ending; connect again")

func reasonName(reason Reason) string {
	return strings.TrimPrefix(reason.String(), "ERROR_REASON_")
}

// statusOf is the error of one Node in a batch, and the effects that go beside it.
func statusOf(err error) (*rpcstatus.Status, *v1.KubernetesEffects) {
	var named *Error
	if !errors.As(err, &named) {
		return &rpcstatus.Status{Code: int32(plainCode(err)), Message: cut(err.Error())}, nil
	}
	sent := &rpcstatus.Status{
		Code:    int32(named.Reason.Code()),
		Message: cut(err.Error()),
		Details: []*anypb.Any{packed(&errdetails.ErrorInfo{Reason: reasonName(named.Reason), Domain: errorDomain})},
	}
	after := named.RetryAfter
	if after <= 0 && named.Reason == RateLimited {
		after = time.Second // a pause must be named
	}
	if after > 0 {
		sent.Details = append(sent.Details, packed(&errdetails.RetryInfo{RetryDelay: durationpb.New(after)}))
	}
	return sent, named.Effects
}

// wholeStatus is an error with its effects among the details.
func wholeStatus(err error) *rpcstatus.Status {
	sent, effects := statusOf(err)
	if effects != nil {
		sent.Details = append(sent.Details, packed(effects))
	}
	return sent
}

// grpcError is the error of a whole call as gRPC sends it.
func grpcError(err error) error {
	if err == nil {
		return nil
	}
	return status.FromProto(wholeStatus(err)).Err()
}

// plainCode is the code of an error without a reason: its outcome is unknown.
func plainCode(err error) codes.Code {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return codes.DeadlineExceeded
	case errors.Is(err, errCallerGone), errors.Is(err, context.Canceled):
		return codes.Canceled
	default:
		return codes.Internal
	}
}

func packed(message proto.Message) *anypb.Any {
	any, err := anypb.New(message)
	if err != nil {
		// Only text that is not UTF-8 cannot be encoded.
		logger().Error("a detail of an error cannot be encoded", "error", err)
		return &anypb.Any{}
	}
	return any
}

// cut shortens a text to maxTextBytes, with an ellipsis; what is not UTF-8, or was cut in two, is
// replaced or removed, since protobuf cannot carry it.
func cut(text string) string {
	const ellipsis = "…"
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= maxTextBytes {
		return text
	}
	return strings.ToValidUTF8(text[:maxTextBytes-len(ellipsis)], "") + ellipsis
}

// reasonOf is the reason of an error for logs; empty: it has none.
func reasonOf(err error) string {
	var named *Error
	if errors.As(err, &named) {
		return reasonName(named.Reason)
	}
	return ""
}
