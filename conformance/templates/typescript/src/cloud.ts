/** The cloud: three machines. Replace it by calls to yours. */
export interface Machine { id: string; hostname: string; address: string; running: boolean }

const MACHINES: Machine[] = [
  { id: "node-1", hostname: "node-1", address: "10.0.0.1", running: true },
  { id: "node-2", hostname: "node-2", address: "10.0.0.2", running: true },
  { id: "node-3", hostname: "node-3", address: "10.0.0.3", running: false },
];

/** All machines of the account, asked for now: no cache. Give the signal to your HTTP client. */
export function machines(signal: AbortSignal): Promise<Machine[]> {
  signal.throwIfAborted();
  return Promise.resolve(MACHINES);
}
