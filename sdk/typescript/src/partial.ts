/** Messages as an author writes them: without the fields that have their zero value. */
type Scalar = Date | Uint8Array | string | number | boolean | undefined;

/** A message whose fields, and theirs, may be left out: each then has its zero value. */
export type DeepPartial<T> = T extends Scalar ? T
  : T extends readonly (infer U)[] ? readonly DeepPartial<U>[]
  : T extends { $case: string; value: unknown } ? { $case: T["$case"]; value: DeepPartial<T["value"]> }
  : { [K in keyof T]?: DeepPartial<T[K]> | undefined };

/** The code that is generated for a message. */
export interface MessageType<T> {
  encode(message: T): { finish(): Uint8Array };
  fromPartial(partial: object): T;
}

/** The message with all its fields. */
export function whole<T extends object>(type: MessageType<T>, partial: DeepPartial<NoInfer<T>>): T {
  return type.fromPartial(partial);
}
