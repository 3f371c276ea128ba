package example;

import dev.outrigger.provider.Provider;
import dev.outrigger.provider.ProviderMain;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;

/** Starts the provider, or asks one: {@code java -jar target/example-provider.jar probe}. */
public final class Main {
  private Main() {}

  /** Arguments: NAME or NAME=off for each instance, --synthesize-instances, --switch=FILE, --room=NUMBER. */
  public static void main(String[] arguments) {
    ProviderMain.run(arguments, rest -> provider(cloud(rest)));
  }

  static Provider provider(Cloud cloud) {
    return Provider.named("example", Optional.ofNullable(Main.class.getPackage().getImplementationVersion()).orElse("dev"))
        .instances(new Machines(cloud))
        .loadBalancers(new Balancers(cloud))
        // Without prefixes all annotations would be sent, and each change of one would be a call.
        .serviceAnnotationPrefixes(Balancers.PREFIX)
        .status(cloud.health::status);
  }

  private static Cloud cloud(List<String> arguments) {
    Cloud cloud = new Cloud();
    for (String argument : arguments) {
      String value = argument.substring(argument.indexOf('=') + 1);
      if (argument.equals("--synthesize-instances")) {
        cloud.synthesizes = true;
      } else if (argument.startsWith("--switch=")) {
        cloud.switches = Path.of(value);
      } else if (argument.startsWith("--room=")) {
        cloud.room = Integer.parseInt(value);
      } else if (argument.startsWith("-")) {
        throw new IllegalArgumentException("unknown argument \"" + argument + "\"");
      } else {
        cloud.add(Cloud.Machine.named(argument));
      }
    }
    return cloud;
  }
}
