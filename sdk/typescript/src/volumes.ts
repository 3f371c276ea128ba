/** VolumesService: the interface of a cloud's volumes, and the service that is made of it. */
import type { Call } from "./call.js";
import type { Core } from "./core.js";
import type { VolumesCapability } from "./gen/cloudprovider/v1/provider.js";
import * as api from "./gen/cloudprovider/v1/volumes.js";
import { type DeepPartial, whole } from "./partial.js";
import { type Lookup, outcomeOf } from "./results.js";

/** Looks up volumes: labels and node affinity of those that no provisioner made. Nothing here changes the cloud. */
export interface Volumes {
  /** Declared at handshake. */
  readonly capability?: DeepPartial<VolumesCapability>;
  /** Looks up a volume. A handle that no volume of this cloud could have is MALFORMED_VOLUME_HANDLE. */
  getVolume(volume: api.Volume, call: Call): Promise<Lookup<api.VolumeTopology>> | Lookup<api.VolumeTopology>;
}

/** The handler of VolumesService. */
export function volumesService(core: Core, volumes: Volumes) {
  return {
    getVolume: core.unary("GetVolume", async ({ volume }: api.GetVolumeRequest, call) =>
      ({ outcome: outcomeOf(api.VolumeTopology, await volumes.getVolume(whole(api.Volume, volume ?? {}), call)) })),
  };
}
