/** A list, sent as messages of limited size. */
import type { Call } from "./call.js";
import { Failure } from "./errors.js";
import { complete, type MessageType } from "./messages.js";
import type { DeepPartial } from "./partial.js";

/** A message of a list has about so many bytes. */
const TARGET_BYTES = 1 << 20;
/** When a message that grows slowly is sent: the caller cancels after a minute of silence. */
const TARGET_AGE_MS = 10_000;
/** A repeated field adds so many bytes to each element: its tag and its length. */
const ELEMENT_OVERHEAD = 6;

/** The elements that a handler lists: an async generator mostly. */
export type List<T> = AsyncIterable<DeepPartial<T>> | Iterable<DeepPartial<T>>;

/** Sends the elements; the last message says that the list is complete. A caller that reads slowly makes the handler wait. */
export async function sendList<T extends object>(
  call: Call, type: MessageType<T>, elements: List<T>, send: (page: { items: T[]; complete: boolean }) => Promise<void>,
): Promise<void> {
  let items: T[] = [];
  let bytes = 0;
  let since = Date.now();
  for await (const partial of elements) {
    call.check();
    const { message, size: messageBytes } = complete(type, partial, "an element of the list");
    const size = messageBytes + ELEMENT_OVERHEAD;
    if (size > call.maxSendBytes) {
      throw new Failure(`an element of the list has ${String(size)} bytes, more than the ${String(call.maxSendBytes)} that the controller accepts in one message`);
    }
    if (items.length > 0 && (bytes + size > Math.min(TARGET_BYTES, call.maxSendBytes) || Date.now() - since >= TARGET_AGE_MS)) {
      await send({ items, complete: false });
      [items, bytes, since] = [[], 0, Date.now()];
    }
    items.push(message);
    bytes += size;
  }
  await send({ items, complete: true });
}
