package dev.outrigger.provider;

import dev.outrigger.cloudprovider.v1.InstanceView;
import java.time.Duration;

/**
 * The options of a lookup.
 *
 * @param view the parts of an instance that the controller reads; more may be filled. Never unspecified
 * @param maxStaleness how old an answer from the provider's own caches may be. Zero: ask the cloud now
 */
public record Query(InstanceView view, Duration maxStaleness) {
  /** A later minor's view is read as everything. */
  static Query of(InstanceView view, com.google.protobuf.Duration maxStaleness) {
    boolean isNarrow = view == InstanceView.INSTANCE_VIEW_METADATA || view == InstanceView.INSTANCE_VIEW_STATE;
    return new Query(isNarrow ? view : InstanceView.INSTANCE_VIEW_FULL,
        Duration.ofSeconds(maxStaleness.getSeconds(), maxStaleness.getNanos()));
  }
}
