#!/usr/bin/env node
/** The command provider-conformance: the program, with the same arguments and exit code. */

import { spawn } from "node:child_process";

import { program } from "./program.js";

const child = spawn(program(), process.argv.slice(2), { stdio: "inherit" });
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
  process.on(signal, () => child.kill(signal));
}
child.on("error", (error) => {
  console.error(error.message);
  process.exitCode = 1;
});
child.on("exit", (code) => {
  process.exitCode = code ?? 1;
});
