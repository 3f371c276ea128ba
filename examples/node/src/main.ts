/** The provider: `node main.js MACHINE...` serves, `node main.js probe` asks one that runs. */
import { main } from "@outrigger/provider";
import { Cloud } from "./cloud.js";
import { instances } from "./instances.js";
import { ANNOTATION_PREFIX, loadBalancers } from "./loadBalancers.js";

await main((machines) => {
  const cloud = new Cloud(machines, process.env.CLOUD_SWITCHES);
  return {
    name: "memory",
    version: "0.1.0",
    serviceAnnotationPrefixes: [ANNOTATION_PREFIX],
    instances: instances(cloud),
    loadBalancers: loadBalancers(cloud),
  };
});
