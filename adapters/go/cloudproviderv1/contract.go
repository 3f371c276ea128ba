// Code generated; DO NOT EDIT: made from the options of the contract: UPDATE_CONTRACT=1 cargo test -p outrigger-api

// Package cloudproviderv1 is the contract between Outrigger's controller and a provider, cloudprovider.v1: messages, services, and a
// table of the rules of each method. It is generated from proto/cloudprovider/v1, whose comments say what each
// field means. Package provider serves it; few programs need its clients.
package cloudproviderv1

import (
	"time"

	"google.golang.org/grpc/codes"
)

// Method has the rules of one method, as options.proto explains them.
type Method struct {
	// Service is the name of its service.
	Service string
	// Name is its own.
	Name string
	// Path is what gRPC calls it.
	Path string
	// Deadline is when the caller takes the outcome as unknown.
	Deadline time.Duration
	// MaxSilence of a stream; 0: it is none.
	MaxSilence time.Duration
	// ChangesCloud says that it makes, changes or deletes something.
	ChangesCloud bool
	// Class that it is limited and paused with.
	Class CallClass
	// IsOptional says that a provider may leave it out.
	IsOptional bool
}

// Methods of the contract, those of one service together.
var Methods = []Method{
	{Service: "InstancesService", Name: "BatchGetInstances", Path: "/cloudprovider.v1.InstancesService/BatchGetInstances", Deadline: 30 * time.Second, Class: CallClass_CALL_CLASS_INSTANCES},
	{Service: "InstancesService", Name: "ListInstances", Path: "/cloudprovider.v1.InstancesService/ListInstances", Deadline: 300 * time.Second, MaxSilence: 60 * time.Second, Class: CallClass_CALL_CLASS_INSTANCES, IsOptional: true},
	{Service: "NodeSetsService", Name: "SyncNodeSet", Path: "/cloudprovider.v1.NodeSetsService/SyncNodeSet", Deadline: 60 * time.Second},
	{Service: "LoadBalancersService", Name: "GetLoadBalancer", Path: "/cloudprovider.v1.LoadBalancersService/GetLoadBalancer", Deadline: 120 * time.Second, Class: CallClass_CALL_CLASS_LOAD_BALANCERS},
	{Service: "LoadBalancersService", Name: "EnsureLoadBalancer", Path: "/cloudprovider.v1.LoadBalancersService/EnsureLoadBalancer", Deadline: 120 * time.Second, ChangesCloud: true, Class: CallClass_CALL_CLASS_LOAD_BALANCERS},
	{Service: "LoadBalancersService", Name: "UpdateLoadBalancerNodes", Path: "/cloudprovider.v1.LoadBalancersService/UpdateLoadBalancerNodes", Deadline: 120 * time.Second, ChangesCloud: true, Class: CallClass_CALL_CLASS_LOAD_BALANCERS},
	{Service: "LoadBalancersService", Name: "DeleteLoadBalancer", Path: "/cloudprovider.v1.LoadBalancersService/DeleteLoadBalancer", Deadline: 120 * time.Second, ChangesCloud: true, Class: CallClass_CALL_CLASS_LOAD_BALANCERS},
	{Service: "LoadBalancersService", Name: "ListLoadBalancers", Path: "/cloudprovider.v1.LoadBalancersService/ListLoadBalancers", Deadline: 300 * time.Second, MaxSilence: 60 * time.Second, Class: CallClass_CALL_CLASS_LOAD_BALANCERS, IsOptional: true},
	{Service: "LoadBalancersService", Name: "PlanLoadBalancer", Path: "/cloudprovider.v1.LoadBalancersService/PlanLoadBalancer", Deadline: 120 * time.Second, Class: CallClass_CALL_CLASS_LOAD_BALANCERS, IsOptional: true},
	{Service: "VolumesService", Name: "GetVolume", Path: "/cloudprovider.v1.VolumesService/GetVolume", Deadline: 30 * time.Second, Class: CallClass_CALL_CLASS_VOLUMES},
	{Service: "ProviderService", Name: "Handshake", Path: "/cloudprovider.v1.ProviderService/Handshake", Deadline: 10 * time.Second},
	{Service: "ProviderService", Name: "GetStatus", Path: "/cloudprovider.v1.ProviderService/GetStatus", Deadline: 5 * time.Second},
	{Service: "RoutesService", Name: "ListRoutes", Path: "/cloudprovider.v1.RoutesService/ListRoutes", Deadline: 300 * time.Second, MaxSilence: 60 * time.Second, Class: CallClass_CALL_CLASS_ROUTES},
	{Service: "RoutesService", Name: "CreateRoute", Path: "/cloudprovider.v1.RoutesService/CreateRoute", Deadline: 120 * time.Second, ChangesCloud: true, Class: CallClass_CALL_CLASS_ROUTES},
	{Service: "RoutesService", Name: "DeleteRoute", Path: "/cloudprovider.v1.RoutesService/DeleteRoute", Deadline: 120 * time.Second, ChangesCloud: true, Class: CallClass_CALL_CLASS_ROUTES},
}

// Method that this is the request of.
func (*BatchGetInstancesRequest) Method() *Method { return &Methods[0] }

// Method that this is the request of.
func (*ListInstancesRequest) Method() *Method { return &Methods[1] }

// Method that this is the request of.
func (*SyncNodeSetRequest) Method() *Method { return &Methods[2] }

// Method that this is the request of.
func (*GetLoadBalancerRequest) Method() *Method { return &Methods[3] }

// Method that this is the request of.
func (*EnsureLoadBalancerRequest) Method() *Method { return &Methods[4] }

// Method that this is the request of.
func (*UpdateLoadBalancerNodesRequest) Method() *Method { return &Methods[5] }

// Method that this is the request of.
func (*DeleteLoadBalancerRequest) Method() *Method { return &Methods[6] }

// Method that this is the request of.
func (*ListLoadBalancersRequest) Method() *Method { return &Methods[7] }

// Method that this is the request of.
func (*PlanLoadBalancerRequest) Method() *Method { return &Methods[8] }

// Method that this is the request of.
func (*GetVolumeRequest) Method() *Method { return &Methods[9] }

// Method that this is the request of.
func (*HandshakeRequest) Method() *Method { return &Methods[10] }

// Method that this is the request of.
func (*GetStatusRequest) Method() *Method { return &Methods[11] }

// Method that this is the request of.
func (*ListRoutesRequest) Method() *Method { return &Methods[12] }

// Method that this is the request of.
func (*CreateRouteRequest) Method() *Method { return &Methods[13] }

// Method that this is the request of.
func (*DeleteRouteRequest) Method() *Method { return &Methods[14] }

// Code that goes with this reason.
func (x ErrorReason) Code() codes.Code {
	switch x {
	case ErrorReason_ERROR_REASON_INVALID_REQUEST:
		return codes.InvalidArgument
	case ErrorReason_ERROR_REASON_INVALID_ANNOTATION:
		return codes.InvalidArgument
	case ErrorReason_ERROR_REASON_UNSUPPORTED_PROTOCOL:
		return codes.InvalidArgument
	case ErrorReason_ERROR_REASON_MALFORMED_PROVIDER_ID:
		return codes.InvalidArgument
	case ErrorReason_ERROR_REASON_UNSUPPORTED_FEATURE:
		return codes.InvalidArgument
	case ErrorReason_ERROR_REASON_MALFORMED_VOLUME_HANDLE:
		return codes.InvalidArgument
	case ErrorReason_ERROR_REASON_DEPENDENCY_NOT_READY:
		return codes.FailedPrecondition
	case ErrorReason_ERROR_REASON_CONFLICTING_RESOURCE:
		return codes.FailedPrecondition
	case ErrorReason_ERROR_REASON_NODE_SET_UNKNOWN:
		return codes.FailedPrecondition
	case ErrorReason_ERROR_REASON_NOT_HANDSHAKED:
		return codes.FailedPrecondition
	case ErrorReason_ERROR_REASON_VERSION_UNSUPPORTED:
		return codes.FailedPrecondition
	case ErrorReason_ERROR_REASON_OPERATION_IN_PROGRESS:
		return codes.Aborted
	case ErrorReason_ERROR_REASON_CONFLICT:
		return codes.Aborted
	case ErrorReason_ERROR_REASON_RATE_LIMITED:
		return codes.ResourceExhausted
	case ErrorReason_ERROR_REASON_QUOTA_EXCEEDED:
		return codes.ResourceExhausted
	case ErrorReason_ERROR_REASON_OVERLOADED:
		return codes.ResourceExhausted
	case ErrorReason_ERROR_REASON_CREDENTIALS_INVALID:
		return codes.Unauthenticated
	case ErrorReason_ERROR_REASON_PERMISSION_MISSING:
		return codes.PermissionDenied
	case ErrorReason_ERROR_REASON_CLOUD_UNAVAILABLE:
		return codes.Unavailable
	case ErrorReason_ERROR_REASON_SHUTTING_DOWN:
		return codes.Unavailable
	case ErrorReason_ERROR_REASON_CAPABILITY_DISABLED:
		return codes.Unimplemented
	case ErrorReason_ERROR_REASON_CLOUD_ERROR:
		return codes.Internal
	case ErrorReason_ERROR_REASON_CONFLICTING_OPTIONS:
		return codes.InvalidArgument
	default:
		return codes.Unknown
	}
}
