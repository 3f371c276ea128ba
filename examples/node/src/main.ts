import { log } from "./calls.js";
import { Cloud } from "./cloud.js";
import { provider } from "./provider.js";
import { listen } from "./socket.js";

const endpoint = process.env.CLOUDPROVIDER_ENDPOINT ?? "unix:///run/outrigger/provider.sock";
const { server, end } = provider(new Cloud(process.argv.slice(2)));
const listening = listen(server, endpoint);
// Before the socket is there: a signal without a handler leaves it behind.
for (const signal of ["SIGTERM", "SIGINT"]) {
  process.once(signal, () => {
    log("ending", { signal });
    void listening.then((removeSocket) => removeSocket()).then(end).then(() => process.exit(0));
  });
}
await listening;
log("serving", { endpoint });
