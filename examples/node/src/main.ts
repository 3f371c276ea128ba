import { log } from "./calls.js";
import { Cloud } from "./cloud.js";
import { provider } from "./provider.js";
import { listen } from "./socket.js";

const endpoint = process.env.CLOUDPROVIDER_ENDPOINT ?? "unix:///run/outrigger/provider.sock";
const { server, end } = provider(new Cloud(process.argv.slice(2)));
const removeSocket = await listen(server, endpoint);
log("serving", { endpoint });
for (const signal of ["SIGTERM", "SIGINT"]) {
  process.once(signal, () => {
    log("ending", { signal });
    void removeSocket().then(end).then(() => process.exit(0));
  });
}
