/** Methods and reasons, made from the options of the contract: UPDATE_CONTRACT=1 cargo test -p outrigger-api. */
import { status } from "@grpc/grpc-js";

/** The rules of one method, as options.proto explains them; times are in seconds. */
export interface Method {
  service: string;
  name: string;
  deadline: number;
  deadlinePerItem?: true;
  maxSilence?: number;
  changesCloud?: true;
  callClass?: string;
  itemKey?: string;
  optional?: true;
}

/** By the path that gRPC calls them. */
export const METHODS: Readonly<Record<string, Method>> = {
  "/cloudprovider.v1.InstancesService/BatchGetInstances": {
    service: "InstancesService", name: "BatchGetInstances", deadline: 30, callClass: "CALL_CLASS_INSTANCES", itemKey: "name",
  },
  "/cloudprovider.v1.InstancesService/ListInstances": {
    service: "InstancesService", name: "ListInstances", deadline: 300, maxSilence: 60, callClass: "CALL_CLASS_INSTANCES", optional: true,
  },
  "/cloudprovider.v1.NodeSetsService/SyncNodeSet": {
    service: "NodeSetsService", name: "SyncNodeSet", deadline: 60,
  },
  "/cloudprovider.v1.LoadBalancersService/GetLoadBalancer": {
    service: "LoadBalancersService", name: "GetLoadBalancer", deadline: 120, callClass: "CALL_CLASS_LOAD_BALANCERS",
  },
  "/cloudprovider.v1.LoadBalancersService/EnsureLoadBalancer": {
    service: "LoadBalancersService", name: "EnsureLoadBalancer", deadline: 120, changesCloud: true, callClass: "CALL_CLASS_LOAD_BALANCERS",
  },
  "/cloudprovider.v1.LoadBalancersService/UpdateLoadBalancerNodes": {
    service: "LoadBalancersService", name: "UpdateLoadBalancerNodes", deadline: 120, deadlinePerItem: true, maxSilence: 120, changesCloud: true, callClass: "CALL_CLASS_LOAD_BALANCERS", itemKey: "uid",
  },
  "/cloudprovider.v1.LoadBalancersService/DeleteLoadBalancer": {
    service: "LoadBalancersService", name: "DeleteLoadBalancer", deadline: 120, changesCloud: true, callClass: "CALL_CLASS_LOAD_BALANCERS",
  },
  "/cloudprovider.v1.LoadBalancersService/ListLoadBalancers": {
    service: "LoadBalancersService", name: "ListLoadBalancers", deadline: 300, maxSilence: 60, callClass: "CALL_CLASS_LOAD_BALANCERS", optional: true,
  },
  "/cloudprovider.v1.LoadBalancersService/PlanLoadBalancer": {
    service: "LoadBalancersService", name: "PlanLoadBalancer", deadline: 120, callClass: "CALL_CLASS_LOAD_BALANCERS", optional: true,
  },
  "/cloudprovider.v1.VolumesService/BatchGetVolumes": {
    service: "VolumesService", name: "BatchGetVolumes", deadline: 30, callClass: "CALL_CLASS_VOLUMES", itemKey: "key",
  },
  "/cloudprovider.v1.ProviderService/Handshake": {
    service: "ProviderService", name: "Handshake", deadline: 10,
  },
  "/cloudprovider.v1.ProviderService/GetStatus": {
    service: "ProviderService", name: "GetStatus", deadline: 5,
  },
  "/cloudprovider.v1.RoutesService/ListRoutes": {
    service: "RoutesService", name: "ListRoutes", deadline: 300, maxSilence: 60, callClass: "CALL_CLASS_ROUTES",
  },
  "/cloudprovider.v1.RoutesService/BatchCreateRoutes": {
    service: "RoutesService", name: "BatchCreateRoutes", deadline: 120, changesCloud: true, callClass: "CALL_CLASS_ROUTES", itemKey: "destination_cidr",
  },
  "/cloudprovider.v1.RoutesService/BatchDeleteRoutes": {
    service: "RoutesService", name: "BatchDeleteRoutes", deadline: 120, changesCloud: true, callClass: "CALL_CLASS_ROUTES", itemKey: "destination_cidr",
  },
};

/** The gRPC code that goes with each reason. */
export const CODES = {
  INVALID_REQUEST: status.INVALID_ARGUMENT,
  INVALID_ANNOTATION: status.INVALID_ARGUMENT,
  UNSUPPORTED_PROTOCOL: status.INVALID_ARGUMENT,
  MALFORMED_PROVIDER_ID: status.INVALID_ARGUMENT,
  UNSUPPORTED_FEATURE: status.INVALID_ARGUMENT,
  MALFORMED_VOLUME_HANDLE: status.INVALID_ARGUMENT,
  DEPENDENCY_NOT_READY: status.FAILED_PRECONDITION,
  CONFLICTING_RESOURCE: status.FAILED_PRECONDITION,
  NODE_SET_UNKNOWN: status.FAILED_PRECONDITION,
  NODE_SET_BASE_MISMATCH: status.FAILED_PRECONDITION,
  NOT_HANDSHAKED: status.FAILED_PRECONDITION,
  VERSION_UNSUPPORTED: status.FAILED_PRECONDITION,
  OPERATION_IN_PROGRESS: status.ABORTED,
  CONFLICT: status.ABORTED,
  RATE_LIMITED: status.RESOURCE_EXHAUSTED,
  QUOTA_EXCEEDED: status.RESOURCE_EXHAUSTED,
  OVERLOADED: status.RESOURCE_EXHAUSTED,
  CREDENTIALS_INVALID: status.UNAUTHENTICATED,
  PERMISSION_MISSING: status.PERMISSION_DENIED,
  CLOUD_UNAVAILABLE: status.UNAVAILABLE,
  SHUTTING_DOWN: status.UNAVAILABLE,
  CAPABILITY_DISABLED: status.UNIMPLEMENTED,
  CLOUD_ERROR: status.INTERNAL,
} as const;
