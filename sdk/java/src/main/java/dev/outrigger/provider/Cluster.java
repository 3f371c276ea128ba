package dev.outrigger.provider;

import java.util.List;

/**
 * The cluster that calls are about.
 *
 * @param name the controller's {@code --cluster-name}
 * @param uid --cluster-uid, else the UID of kube-system: a stable identity for tags in the cloud
 * @param podCidrs networks: none, one, or one of each IP family
 * @param serviceCidrs likewise
 */
public record Cluster(String name, String uid, List<String> podCidrs, List<String> serviceCidrs) {
  /** A cluster without networks. */
  public Cluster(String name, String uid) {
    this(name, uid, List.of(), List.of());
  }

  Cluster withUid(String other) {
    return new Cluster(name, other, podCidrs, serviceCidrs);
  }
}
