/** Starts the provider, or asks a running one: `node main.js probe`. Other arguments are the names of its machines. */
import { log } from "./calls.js";
import { Cloud } from "./cloud.js";
import { probe } from "./probe.js";
import { provider } from "./provider.js";
import { listen } from "./socket.js";

const endpoint = process.env.CLOUDPROVIDER_ENDPOINT ?? "unix:///run/outrigger/provider.sock";
if (process.argv[2] === "probe") {
  const { answers, sentence } = await probe(endpoint);
  console.log(sentence);
  process.exit(answers ? 0 : 1);
}
const { server, end } = provider(new Cloud(process.argv.slice(2)));
const listening = listen(server, endpoint);
// A signal without a handler would leave the socket file, so the handlers are set before the socket appears.
for (const signal of ["SIGTERM", "SIGINT"]) {
  process.once(signal, () => {
    log("ending", { signal });
    void listening.then((removeSocket) => removeSocket()).then(end).then(() => process.exit(0));
  });
}
await listening;
log("serving", { endpoint });
