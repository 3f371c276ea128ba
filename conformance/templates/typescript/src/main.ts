import { main } from "@outrigger/provider";
import { instances } from "./instances.js";

await main({
  name: "my-cloud",
  version: "0.1.0",
  serviceAnnotationPrefixes: ["my-cloud.example/"], // Others are not sent, and lead to no call.
  instances, // A service that is not here is not declared, and never called.
});
