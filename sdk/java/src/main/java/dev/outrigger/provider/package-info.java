/**
 * Serves a cloud to Outrigger's controller over a Unix socket: implement {@link dev.outrigger.provider.Instances},
 * {@link dev.outrigger.provider.LoadBalancers}, {@link dev.outrigger.provider.Routes} or
 * {@link dev.outrigger.provider.Volumes}, and call {@link dev.outrigger.provider.ProviderMain#run}. Messages are those
 * of the contract, in {@code dev.outrigger.cloudprovider.v1}.
 */
package dev.outrigger.provider;
