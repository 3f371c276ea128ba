/** A provider that takes no arguments. */
import { main } from "../../src/index.js";

await main({ name: "test" });
