package dev.outrigger.provider;

import dev.outrigger.cloudprovider.v1.Instance;
import java.nio.file.Files;
import java.nio.file.Path;

/** A provider in a process of its own, whose machines do what their names say. */
final class Program {
  private Program() {}

  public static void main(String[] arguments) {
    ProviderMain.run(arguments, rest -> {
      if (rest.contains("throws")) {
        throw new java.io.IOException("the cloud has no such account");
      }
      if (!rest.isEmpty()) {
        throw new IllegalArgumentException("unknown argument \"" + rest.get(0) + "\"");
      }
      Fixtures.LookUp lookUp = (call, node) -> {
        if (node.getName().equals("slow")) {
          while (!Files.exists(Path.of(System.getenv("CLOUDPROVIDER_ENDPOINT").substring("unix://".length()) + ".released"))) {
            Thread.sleep(5);
          }
        }
        return Lookup.found(Instance.newBuilder().setProviderId("test://" + node.getName()).build());
      };
      return Provider.named("test", "0.1.0").instances(lookUp);
    });
  }
}
