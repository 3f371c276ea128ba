/** A provider whose lookups do what the name of the Node says; its first argument may be how its start fails. */
import { existsSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { main, type Result, v1 } from "../../src/index.js";

/** A slow lookup ends when this file is there. */
const released = `${process.env.CLOUDPROVIDER_ENDPOINT?.slice("unix://".length) ?? ""}.released`;

const behaviours: Record<string, () => Result<v1.Instance> | Promise<Result<v1.Instance>>> = {
  slow: async () => {
    while (!existsSync(released)) await sleep(20);
    return { absent: "CONFIRMED" };
  },
  throws: () => { throw new Error("defect"); },
  stray: () => {
    void Promise.reject(new Error("nothing awaits this"));
    return { absent: "CONFIRMED" };
  },
};

await main(async (args) => {
  if (args[0] === "throws") throw new Error("the cloud has no such account");
  if (args[0] === "waits") await sleep(60_000);
  return {
    name: "test",
    instances: {
      batchGetInstances: (nodes) => Promise.all(nodes.map(async ({ name }) => [name, await behaviours[name]?.() ?? { absent: "CONFIRMED" }] as const)),
    },
  };
});
