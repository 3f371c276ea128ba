/** The cases of provider-conformance as tests of vitest or node:test. */

import { execFile, execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { program } from "./program.js";

/** `test` of vitest or of node:test. */
export type Test = (name: string, options: { timeout: number }, body: (context: Context) => Promise<void>) => unknown;

interface Context {
  skip(reason: string): unknown;
}

export interface Options {
  /** The file of inputs, from the working directory. */
  readonly inputs: string;
  /** More arguments of `provider-conformance run`, such as `--allow-mutations`. */
  readonly args?: readonly string[];
}

/** The parts of the JSON report that become tests. */
interface Report {
  readonly faults: readonly string[];
  readonly cases: readonly Case[];
}

interface Case {
  readonly id: string;
  readonly title: string;
  readonly result: "passed" | "failed" | "warning" | "note" | "waived" | "skipped";
  readonly text: string;
  readonly because?: string;
  readonly waiver?: object | null;
}

/** A run: what is wrong beyond single cases, and the cases by their ids; no cases where the suite could not run them. */
interface Run {
  readonly fault: string;
  readonly cases?: ReadonlyMap<string, Case>;
}

/**
 * Makes a test of each case. A first one, `run`, fails for what concerns no case. The suite runs once, when the first test does.
 */
export function conformance(test: Test, { inputs, args = [] }: Options): void {
  const listed = JSON.parse(execFileSync(program(), ["list", "--format=json"], { encoding: "utf8" })) as Case[];
  let running: Promise<Run> | undefined;
  const result = async (): Promise<Run["cases"]> => {
    const isFirst = running === undefined;
    const { fault, cases } = await (running ??= run(inputs, args));
    if (isFirst && fault) throw failure(fault);
    return cases;
  };
  // The suite has limits of its own, and the first test takes the time of all.
  const options = { timeout: Infinity };
  test("run", options, async () => {
    await result();
  });
  for (const { id, title } of listed) {
    test(`${id} ${title}`, options, async (context) => {
      const cases = await result();
      const reason = cases ? judge(id, cases.get(id), args) : "the suite did not run; the first of these tests says why";
      if (reason) context.skip(reason);
    });
  }
}

/** Runs the suite. */
async function run(inputs: string, args: readonly string[]): Promise<Run> {
  const folder = await mkdtemp(join(tmpdir(), "provider-conformance-"));
  const path = join(folder, "report.json");
  try {
    const words = ["run", `--inputs=${inputs}`, `--report=json=${path}`, ...args];
    const { code, stderr } = await new Promise<{ code: string; stderr: string }>((resolve) => {
      execFile(program(), words, { maxBuffer: Infinity }, (error, _, stderr) => {
        resolve({ code: String(error?.code ?? error?.signal ?? 0), stderr });
      });
    });
    if (!existsSync(path)) {
      // The provider's log is there, too.
      const last = stderr.split("\n").slice(-20).join("\n");
      return { fault: `provider-conformance did not run the cases, exit code ${code}\n${last}` };
    }
    const report = JSON.parse(await readFile(path, "utf8")) as Report;
    return {
      fault: code === "0" ? "" : report.faults.join("\n"),
      cases: new Map(report.cases.map((ran) => [ran.id, ran])),
    };
  } finally {
    await rm(folder, { recursive: true });
  }
}

/** Throws where a case failed; the reason to skip its test, if there is one. */
function judge(id: string, ran: Case | undefined, args: readonly string[]): string | undefined {
  if (!ran) throw failure(`the report has no case ${id}`);
  switch (ran.result) {
    case "passed":
      if (ran.waiver) console.warn(ran.text);
      return undefined;
    case "warning":
    case "note":
      if (ran.result === "warning" && args.includes("--strict")) throw failure(ran.text);
      console.warn(ran.text);
      return undefined;
    case "skipped":
      return ran.because;
    case "waived":
      return ran.text;
    case "failed":
      throw failure(ran.text);
    default:
      throw failure(`${id} ended in a way that this package does not know: ${String(ran.result)}`);
  }
}

/** An error without the place in this file. */
function failure(message: string): Error {
  const error = new Error(message);
  error.stack = message;
  return error;
}
