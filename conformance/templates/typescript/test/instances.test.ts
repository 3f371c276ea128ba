/** Answers about Nodes. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { ProviderError, v1 } from "@outrigger/provider";
import { machines } from "../src/cloud.js";
import { lookup, SCHEME } from "../src/instances.js";

const all = await machines(AbortSignal.timeout(10_000));

test("a machine is answered by name and by ID", () => {
  const byName = lookup({ name: "node-1", providerId: "" }, all);
  assert.ok("found" in byName);
  assert.equal(byName.found.providerId, `${SCHEME}node-1`);
  assert.deepEqual(byName.found.addresses, [{ type: "InternalIP", address: "10.0.0.1" }]);
  const byId = lookup({ name: "renamed", providerId: `${SCHEME}node-3` }, all);
  assert.ok("found" in byId && byId.found.powerState === v1.PowerState.SHUTDOWN);
});

test("what is no machine is told apart", () => {
  assert.deepEqual(lookup({ name: "gone", providerId: "" }, all), { absent: "CONFIRMED" });
  assert.ok("notManaged" in lookup({ name: "foreign", providerId: "other-cloud://i-1" }, all));
  const malformed = lookup({ name: "malformed", providerId: `${SCHEME}not an id` }, all);
  assert.ok("error" in malformed && malformed.error instanceof ProviderError);
  assert.equal(malformed.error.reason, "MALFORMED_PROVIDER_ID");
});
