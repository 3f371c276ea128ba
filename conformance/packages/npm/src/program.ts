/** Where the program provider-conformance of this package is. */

import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** The path of the program for this platform; throws where the package has none. */
export function program(): string {
  const platform = `${process.platform}-${process.arch}`;
  const path = fileURLToPath(new URL(`../programs/${platform}/provider-conformance`, import.meta.url));
  if (!existsSync(path)) {
    throw new Error(`@outrigger/conformance has no program for ${platform}: run it on Linux, x64 or arm64, such as in a container`);
  }
  return path;
}
