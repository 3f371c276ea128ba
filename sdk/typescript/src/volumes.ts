/** VolumesService: the interface of a cloud's volumes, and the service that is made of it. */
import type { Call } from "./call.js";
import type { Core } from "./core.js";
import type { VolumesCapability } from "./gen/cloudprovider/v1/provider.js";
import * as api from "./gen/cloudprovider/v1/volumes.js";
import type { DeepPartial } from "./partial.js";
import { batch, fit, type Results } from "./results.js";

/** Looks up volumes: labels and node affinity of those that no provisioner made. Nothing here changes the cloud. */
export interface Volumes {
  /** Declared at handshake; the SDK sets `maxBatchSize` to 100 unless it is given. */
  readonly capability?: DeepPartial<VolumesCapability>;
  /**
   * Looks up 1 to `maxBatchSize` volumes; the results have `Volume.key` as keys. A handle that no volume of this cloud could
   * have is MALFORMED_VOLUME_HANDLE. An exception is the error of each volume.
   */
  batchGetVolumes(volumes: readonly api.Volume[], call: Call): Promise<Results<api.VolumeTopology>> | Results<api.VolumeTopology>;
}

/** The handlers of VolumesService. */
export function volumesService(core: Core, volumes: Volumes): api.VolumesServiceServer {
  return {
    batchGetVolumes: core.unary("BatchGetVolumes", async ({ items }: api.BatchGetVolumesRequest, call) => {
      const work = () => volumes.batchGetVolumes(items, call);
      return fit(call, api.BatchGetVolumesResponse, { results: await batch(call, items, api.VolumeTopology, work, false) });
    }),
  };
}
