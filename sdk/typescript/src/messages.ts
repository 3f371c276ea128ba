/** Messages as a handler gives them: fields left out, and of types that only the compiler has checked. */
import { Failure } from "./errors.js";
import type { DeepPartial } from "./partial.js";

/** The code that is generated for a message. */
export interface MessageType<T> {
  encode(message: T): { finish(): Uint8Array };
  decode(bytes: Uint8Array): T;
  fromPartial(partial: object): T;
}

/**
 * The whole message, and its size in bytes. Throws a {@link Failure} that names the field where a value has another type
 * than the contract says; gRPC would send it as something else, or not at all.
 */
export function complete<T extends object>(type: MessageType<T>, partial: DeepPartial<NoInfer<T>>, what: string): { message: T; size: number } {
  // The compiler has not seen what JavaScript answers.
  const given: unknown = partial;
  if (typeof given !== "object" || given === null) throw new Failure(`${what} is ${given === null ? "null" : typeof given}, not an object`);
  let message: T;
  let bytes: Uint8Array;
  try {
    message = type.fromPartial(given);
    bytes = type.encode(message).finish();
  } catch (error) {
    throw new Failure(`${what} does not have the fields that the contract says: ${error instanceof Error ? error.message : String(error)}`);
  }
  const field = difference(partial, type.decode(bytes), "");
  if (field !== undefined) throw new Failure(`${what} has a value of a wrong type in ${field || "itself"}`);
  return { message, size: bytes.length };
}

/** The path of the first value that is not what its reader gets. */
function difference(sent: unknown, read: unknown, path: string): string | undefined {
  if (sent === undefined || sent === null || Object.is(sent, read)) return undefined;
  if (sent instanceof Date) return read instanceof Date && read.getTime() === sent.getTime() ? undefined : path;
  if (typeof sent !== "object" || typeof read !== "object" || read === null || Array.isArray(sent) !== Array.isArray(read)) return path;
  const fields = read as Record<string, unknown>;
  for (const [name, value] of Object.entries(sent)) {
    // The spread of an object of the author's may have fields that are none of the message.
    if (!(name in fields)) continue;
    const inner = difference(value, fields[name], path ? `${path}.${name}` : name);
    if (inner !== undefined) return inner;
  }
  return undefined;
}
