package dev.outrigger.provider;

import dev.outrigger.cloudprovider.v1.Volume;
import dev.outrigger.cloudprovider.v1.VolumeTopology;
import dev.outrigger.cloudprovider.v1.VolumesCapability;
import java.util.List;
import java.util.Map;

/**
 * Labels and node affinity of volumes that no provisioner made. The author writes {@link #getVolume}, or
 * {@link #getVolumes} where one call of the cloud answers many. Nothing here changes the cloud.
 */
public interface Volumes {
  /** Facts that the methods do not show. */
  default VolumesCapability capability() {
    return VolumesCapability.getDefaultInstance();
  }

  /** How many {@link #getVolume} run at a time for one batch. */
  default int concurrency() {
    return 8;
  }

  /** Where a volume can be used. A handle that no volume of this cloud could have is MALFORMED_VOLUME_HANDLE. */
  default Outcome<VolumeTopology> getVolume(Call call, Volume volume) throws Exception {
    throw new UnsupportedOperationException("getVolume");
  }

  /** The outcome of each volume by its key. An exception is the error of each. */
  default Map<String, Outcome<VolumeTopology>> getVolumes(Call call, List<Volume> volumes) throws Exception {
    throw new UnsupportedOperationException("getVolumes");
  }
}
