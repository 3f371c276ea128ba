package dev.outrigger.provider;

import dev.outrigger.cloudprovider.v1.*;
import java.time.Duration;

/** Answers about a load balancer. */
public final class Answers {
  /** Another controller owns the Service; nothing was touched. */
  public static final LoadBalancerAnswer NOT_MANAGED = of(LoadBalancerDisposition.LOAD_BALANCER_DISPOSITION_NOT_MANAGED).build();
  /** No part of it is left, or there is none to update. */
  public static final LoadBalancerAnswer ABSENT = of(LoadBalancerDisposition.LOAD_BALANCER_DISPOSITION_ABSENT).build();
  /** It is kept on purpose, and the finalizer may go. An answer to {@code deleteLoadBalancer} alone. */
  public static final LoadBalancerAnswer RETAINED = of(LoadBalancerDisposition.LOAD_BALANCER_DISPOSITION_RETAINED).build();

  private Answers() {}

  /** It is as asked for, and reached by these addresses. An update needs none. */
  public static LoadBalancerAnswer ready(String... ips) {
    return of(LoadBalancerDisposition.LOAD_BALANCER_DISPOSITION_READY).setStatus(reachedBy(ips)).build();
  }

  /** It works, but an Ensure would change it; the difference is for the log. An answer to {@code getLoadBalancer} alone. */
  public static LoadBalancerAnswer differs(String difference) {
    return of(LoadBalancerDisposition.LOAD_BALANCER_DISPOSITION_DIFFERS).setMessage(difference).build();
  }

  /** The change was accepted: the controller asks again after this time, 1 s to 300 s. Early addresses are published. */
  public static LoadBalancerAnswer inProgress(Duration retryAfter, String... ips) {
    return of(LoadBalancerDisposition.LOAD_BALANCER_DISPOSITION_IN_PROGRESS)
        .setRetryAfter(ProviderException.duration(retryAfter)).setStatus(reachedBy(ips)).build();
  }

  /** A status with these addresses. */
  public static LoadBalancerStatus reachedBy(String... ips) {
    LoadBalancerStatus.Builder status = LoadBalancerStatus.newBuilder();
    for (String ip : ips) {
      status.addIngressBuilder().setIp(ip);
    }
    return status.build();
  }

  private static LoadBalancerAnswer.Builder of(LoadBalancerDisposition disposition) {
    return LoadBalancerAnswer.newBuilder().setDisposition(disposition);
  }
}
