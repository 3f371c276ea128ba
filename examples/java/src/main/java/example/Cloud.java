package example;

import dev.outrigger.provider.Dependencies;
import dev.outrigger.provider.ProviderException;
import dev.outrigger.provider.Reason;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/** The cloud: one account, in the memory of this process. Its methods that can throw are calls of its API. */
final class Cloud {
  private static final Map<String, String> POOLS = Map.of("IPv4", "198.18.0.", "IPv6", "2001:db8::");
  private static final Map<String, Reason> STATES =
      Map.of("locked", Reason.CREDENTIALS_INVALID, "limited", Reason.RATE_LIMITED, "off", Reason.CLOUD_UNAVAILABLE);

  final Dependencies health = new Dependencies("cloud-api", "credentials");
  /** A lookup by name makes the machine: for tests and demos. */
  boolean synthesizes;
  /** A file that switches the API: off, hangs, limited or locked. Beside it stand the numbers of calls and changes. */
  Path switches;
  /** For so many load balancers. */
  int room = 200;
  private final Map<String, Machine> machines = new ConcurrentHashMap<>();
  private final Map<Tags, Balancer> balancers = new TreeMap<>();
  private int calls;
  private int changes;

  record Machine(String id, String name, String address, boolean isRunning) {
    /** The same ID and address for a name in each process: this cloud has no other memory. NAME=off is stopped. */
    static Machine named(String text) {
      String name = text.split("=", 2)[0];
      try {
        byte[] seed = MessageDigest.getInstance("SHA-256").digest(name.getBytes(java.nio.charset.StandardCharsets.UTF_8));
        String address = "10." + (seed[0] & 255) + "." + (seed[1] & 255) + "." + (seed[2] & 255);
        return new Machine("i-" + HexFormat.of().formatHex(seed, 0, 6), name, address, !text.endsWith("=off"));
      } catch (NoSuchAlgorithmException error) {
        throw new IllegalStateException("each Java has SHA-256", error);
      }
    }
  }

  record Spec(Set<String> listeners, Set<String> sourceRanges, int healthCheckPort, boolean proxyProtocol,
      List<String> families, List<String> targets) {
    Spec withTargets(List<String> others) {
      return new Spec(listeners, sourceRanges, healthCheckPort, proxyProtocol, families, others);
    }
  }

  /** UIDs: a load balancer is found by them. */
  record Tags(String cluster, String service) implements Comparable<Tags> {
    @Override
    public int compareTo(Tags other) {
      return (cluster + "/" + service).compareTo(other.cluster + "/" + other.service);
    }
  }

  record Balancer(Tags tags, Spec spec, List<String> addresses) {}

  void add(Machine machine) {
    machines.put(machine.id(), machine);
  }

  /** All machines by ID; {@code names} are those that the caller looks for. */
  Map<String, Machine> describeMachines(List<String> names) throws Exception {
    call(false);
    if (synthesizes) {
      names.stream().map(Machine::named).forEach(machine -> machines.putIfAbsent(machine.id(), machine));
    }
    return Map.copyOf(machines);
  }

  /** Null: there is none. */
  Balancer describeBalancer(Tags tags) throws Exception {
    call(false);
    synchronized (this) {
      return balancers.get(tags);
    }
  }

  Stream<Balancer> describeBalancers(String cluster) throws Exception {
    call(false);
    synchronized (this) {
      return List.copyOf(balancers.values()).stream().filter(each -> each.tags().cluster().equals(cluster));
    }
  }

  /** It has its tags from the first moment, and the preferred addresses that are free. */
  Balancer createBalancer(Tags tags, Spec spec, List<String> preferred) throws Exception {
    call(true);
    synchronized (this) {
      if (balancers.size() >= room) {
        throw new ProviderException(Reason.QUOTA_EXCEEDED, "the account has room for " + room + " load balancers");
      }
      List<String> addresses = new ArrayList<>();
      for (String family : spec.families()) {
        String pool = POOLS.get(family);
        Stream<String> own = preferred.stream().filter(ip -> ip.startsWith(pool));
        addresses.add(Stream.concat(own, IntStream.rangeClosed(1, 254).mapToObj(host -> pool + host))
            .filter(ip -> balancers.values().stream().noneMatch(each -> each.addresses().contains(ip)))
            .findFirst().orElseThrow(() -> new ProviderException(Reason.QUOTA_EXCEEDED, "no address is free")));
      }
      balancers.put(tags, new Balancer(tags, spec, List.copyOf(addresses)));
      return balancers.get(tags);
    }
  }

  void changeBalancer(Tags tags, Spec spec) throws Exception {
    call(true);
    synchronized (this) {
      balancers.computeIfPresent(tags, (key, old) -> new Balancer(tags, spec, old.addresses()));
    }
  }

  void deleteBalancer(Tags tags) throws Exception {
    call(true);
    synchronized (this) {
      balancers.remove(tags);
    }
  }

  /** The way to the cloud's API and back. */
  private void call(boolean isChange) throws Exception {
    count(isChange);
    Thread.sleep(20);
    String state = state();
    while (state.equals("hangs")) {
      Thread.sleep(20);
      state = state();
    }
    if (STATES.containsKey(state)) {
      health.fails(state.equals("locked") ? "credentials" : "cloud-api", "the API is " + state);
      throw new ProviderException(STATES.get(state), "the API is " + state);
    }
    health.works("cloud-api", "credentials");
  }

  private synchronized void count(boolean isChange) throws Exception {
    calls++;
    changes += isChange ? 1 : 0;
    if (switches != null) {
      Files.writeString(Path.of(switches + ".counts"), "calls " + calls + "\nchanges " + changes + "\n");
    }
  }

  private String state() throws Exception {
    return switches != null && Files.exists(switches) ? Files.readString(switches).strip() : "";
  }
}
