package dev.outrigger.provider;

import dev.outrigger.cloudprovider.v1.*;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;

/**
 * Makes and removes the load balancers of Services. The key is {@code Service.uid}: tag with it and with
 * {@code call.clusterUid()}, in the cloud call that creates, since an answer may be lost. Each method carries the
 * whole desired state and may be repeated.
 *
 * <p>One change of a Service runs at a time, also while a handler outlives its caller. A handler of a change is not
 * interrupted when its caller goes away: ask {@link Call#check} between two changes of the cloud. It has 30 s to end.
 * {@link #listLoadBalancers} and {@link #planLoadBalancer} are optional. {@link Answers} has the answers.
 */
public interface LoadBalancers {
  /**
   * Facts that the methods do not show; the server fills in {@code list} and {@code plan}. {@code max_in_flight} is 1
   * for code that was written for one at a time.
   */
  default LoadBalancersCapability capability() {
    return LoadBalancersCapability.getDefaultInstance();
  }

  /**
   * Compares the load balancer with the Service and, where there are some, with the targets. Changes nothing. Answers:
   * ready, differs, inProgress, NOT_MANAGED, ABSENT.
   */
  LoadBalancerAnswer getLoadBalancer(Call call, Service service, Optional<Targets> targets) throws Exception;

  /**
   * Makes the load balancer what the Service and its targets ask for; no targets are legal. Answers: ready, inProgress,
   * NOT_MANAGED.
   */
  LoadBalancerAnswer ensureLoadBalancer(Call call, Service service, Targets targets) throws Exception;

  /**
   * Gives one load balancer new targets and changes nothing else. Answers: ready, inProgress, NOT_MANAGED, ABSENT.
   */
  LoadBalancerAnswer updateLoadBalancerNodes(Call call, Service service, Targets targets) throws Exception;

  /** Removes every part of it. Answers: ABSENT, RETAINED, NOT_MANAGED, inProgress. */
  LoadBalancerAnswer deleteLoadBalancer(Call call, Service service) throws Exception;

  /** Everything that this cluster owns; an exception discards the list. */
  default Stream<OwnedLoadBalancer> listLoadBalancers(Call call) throws Exception {
    throw ProviderException.notServed("listLoadBalancers");
  }

  /** The changes that an Ensure, or without targets a Delete, would make. Changes nothing. */
  default List<PlannedChange> planLoadBalancer(Call call, Service service, Optional<Targets> targets) throws Exception {
    throw ProviderException.notServed("planLoadBalancer");
  }
}
