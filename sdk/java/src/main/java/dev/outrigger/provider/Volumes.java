package dev.outrigger.provider;

import dev.outrigger.cloudprovider.v1.*;

/** Looks up volumes that no provisioner made. Nothing here changes the cloud. */
public interface Volumes {
  /** Facts that the methods do not show. */
  default VolumesCapability capability() {
    return VolumesCapability.getDefaultInstance();
  }

  /** Where a volume can be used. A handle that no volume of this cloud could have is MALFORMED_VOLUME_HANDLE. */
  GetVolumeResponse getVolume(Call call, Volume volume) throws Exception;
}
