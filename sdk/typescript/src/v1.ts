/** The messages of the contract cloudprovider.v1; their comments say what each field means. */
export * from "./gen/cloudprovider/v1/common.js";
export * from "./gen/cloudprovider/v1/instances.js";
export * from "./gen/cloudprovider/v1/load_balancers.js";
export * from "./gen/cloudprovider/v1/node_sets.js";
export * from "./gen/cloudprovider/v1/options.js";
export * from "./gen/cloudprovider/v1/provider.js";
export * from "./gen/cloudprovider/v1/routes.js";
export * from "./gen/cloudprovider/v1/volumes.js";
