/** Methods and reasons of the contract, made from the options of the contract: UPDATE_CONTRACT=1 cargo test -p outrigger-api. */
import { status } from "@grpc/grpc-js";

/** The rules of one method, as options.proto explains them. */
export interface Method {
  /** The path that gRPC has for it. */
  readonly path: string;
  /** Seconds after which the caller takes the outcome as unknown. */
  readonly deadline: number;
  /** Each item of the request has as much time. */
  readonly isDeadlinePerItem: boolean;
  /** It makes, changes or deletes something in the cloud. */
  readonly changesCloud: boolean;
  /** The field of an item that is its key; empty: it is no batch. */
  readonly itemKey: string;
}

/** The methods that have a context, by their names. */
export const METHODS = {
  BatchGetInstances: { path: "/cloudprovider.v1.InstancesService/BatchGetInstances", deadline: 30, isDeadlinePerItem: false, changesCloud: false, itemKey: "name" },
  ListInstances: { path: "/cloudprovider.v1.InstancesService/ListInstances", deadline: 300, isDeadlinePerItem: false, changesCloud: false, itemKey: "" },
  SyncNodeSet: { path: "/cloudprovider.v1.NodeSetsService/SyncNodeSet", deadline: 60, isDeadlinePerItem: false, changesCloud: false, itemKey: "" },
  GetLoadBalancer: { path: "/cloudprovider.v1.LoadBalancersService/GetLoadBalancer", deadline: 120, isDeadlinePerItem: false, changesCloud: false, itemKey: "" },
  EnsureLoadBalancer: { path: "/cloudprovider.v1.LoadBalancersService/EnsureLoadBalancer", deadline: 120, isDeadlinePerItem: false, changesCloud: true, itemKey: "" },
  UpdateLoadBalancerNodes: { path: "/cloudprovider.v1.LoadBalancersService/UpdateLoadBalancerNodes", deadline: 120, isDeadlinePerItem: true, changesCloud: true, itemKey: "uid" },
  DeleteLoadBalancer: { path: "/cloudprovider.v1.LoadBalancersService/DeleteLoadBalancer", deadline: 120, isDeadlinePerItem: false, changesCloud: true, itemKey: "" },
  ListLoadBalancers: { path: "/cloudprovider.v1.LoadBalancersService/ListLoadBalancers", deadline: 300, isDeadlinePerItem: false, changesCloud: false, itemKey: "" },
  PlanLoadBalancer: { path: "/cloudprovider.v1.LoadBalancersService/PlanLoadBalancer", deadline: 120, isDeadlinePerItem: false, changesCloud: false, itemKey: "" },
  BatchGetVolumes: { path: "/cloudprovider.v1.VolumesService/BatchGetVolumes", deadline: 30, isDeadlinePerItem: false, changesCloud: false, itemKey: "key" },
  ListRoutes: { path: "/cloudprovider.v1.RoutesService/ListRoutes", deadline: 300, isDeadlinePerItem: false, changesCloud: false, itemKey: "" },
  BatchCreateRoutes: { path: "/cloudprovider.v1.RoutesService/BatchCreateRoutes", deadline: 120, isDeadlinePerItem: false, changesCloud: true, itemKey: "destinationCidr" },
  BatchDeleteRoutes: { path: "/cloudprovider.v1.RoutesService/BatchDeleteRoutes", deadline: 120, isDeadlinePerItem: false, changesCloud: true, itemKey: "destinationCidr" },
} as const satisfies Record<string, Method>;

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
