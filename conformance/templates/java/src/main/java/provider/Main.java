package provider;

import dev.outrigger.cloudprovider.v1.HandshakeResponse;
import dev.outrigger.provider.Provider;
import dev.outrigger.provider.ProviderMain;

/** Starts the provider, or asks one: {@code java -jar target/provider-my-cloud.jar probe}. */
public final class Main {
  private Main() {}

  public static void main(String[] arguments) {
    ProviderMain.run(arguments, Provider.named("my-cloud", "0.1.0")
        .instances(new Machines())
        // Annotations of other prefixes are not sent, and lead to no call.
        .declares(HandshakeResponse.newBuilder().addServiceAnnotationPrefixes("my-cloud.example/").build()));
  }
}
