package dev.outrigger.provider;

import com.google.protobuf.Timestamp;
import dev.outrigger.cloudprovider.v1.DependencyStatus;
import dev.outrigger.cloudprovider.v1.GetStatusResponse;
import dev.outrigger.cloudprovider.v1.Readiness;
import java.time.Instant;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Parts that a provider depends on, as its last calls have shown them; {@link #status} can be the status of a
 * {@link Provider}. It is never BROKEN: a restart mends neither a cloud nor credentials.
 */
public final class Dependencies {
  private final Map<String, DependencyStatus> statuses = new LinkedHashMap<>();

  /** Names are short and stable, such as "cloud-api" and "credentials". */
  public Dependencies(String... names) {
    for (String name : names) {
      statuses.put(name, DependencyStatus.newBuilder().setName(name).setReadiness(Readiness.READINESS_READY).build());
    }
  }

  /** A call has just shown that these work. */
  public synchronized void works(String... names) {
    Instant now = Instant.now();
    Timestamp time = Timestamp.newBuilder().setSeconds(now.getEpochSecond()).setNanos(now.getNano()).build();
    for (String name : names) {
      statuses.put(name, of(name).toBuilder()
          .setReadiness(Readiness.READINESS_READY).clearMessage().setLastSuccess(time).build());
    }
  }

  /** A call has just failed. Operators read the text, so it must contain no secrets. */
  public synchronized void fails(String name, String why) {
    statuses.put(name, of(name).toBuilder().setReadiness(Readiness.READINESS_DEGRADED).setMessage(why).build());
  }

  private DependencyStatus of(String name) {
    DependencyStatus status = statuses.get(name);
    if (status == null) {
      throw new IllegalArgumentException("the provider has no dependency " + name + ", only " + statuses.keySet());
    }
    return status;
  }

  /** READY, or DEGRADED while one of them fails. */
  public synchronized GetStatusResponse status() {
    boolean works = statuses.values().stream().allMatch(each -> each.getReadiness() == Readiness.READINESS_READY);
    return GetStatusResponse.newBuilder().addAllDependencies(statuses.values())
        .setReadiness(works ? Readiness.READINESS_READY : Readiness.READINESS_DEGRADED).build();
  }
}
