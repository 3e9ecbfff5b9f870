/** The service over HTTP: calls, and server-sent events that resume by themselves. */

import { signal } from "@preact/signals";

export type Id = string | number;
export type Row = Record<string, unknown>;

export interface Column {
  name: string;
  kind: string;
  expected: string;
  required: boolean;
  nullable: boolean;
  words?: string[];
}

export interface Load {
  written: number;
  refused: number;
  groups: number;
  told: number;
  dropped: number;
  queue: number;
  receivers: number;
  log_bytes: number;
  p50: number | null;
  p99: number | null;
}

export interface Stream {
  name: string;
  engine: string;
  settings: Row;
  subscriptions: number;
  sequence: number;
  load: Load;
  stats?: Record<string, number>;
  configuration?: Row;
  inputs?: Record<string, Column[]>;
}

const KEY = "rankcast-token";

/** The token, for this tab alone. */
export const token = signal(sessionStorage.getItem(KEY) ?? "");
/** Whether a call was refused for want of one. */
export const needsToken = signal(false);

export function setToken(value: string): void {
  token.value = value;
  if (value) sessionStorage.setItem(KEY, value);
  else sessionStorage.removeItem(KEY);
  needsToken.value = false;
}

/** What the service says of a call that it refused. */
export class Refused extends Error {
  constructor(
    readonly status: number,
    readonly title: string,
    readonly detail: string,
    readonly column: string | undefined,
    readonly hint: string | undefined,
  ) {
    super(detail || title);
  }
}

function headers(more: Record<string, string> = {}): Record<string, string> {
  return token.value ? { ...more, Authorization: `Bearer ${token.value}` } : more;
}

async function refusal(response: Response): Promise<Refused> {
  if (response.status === 401 || response.status === 403) needsToken.value = true;
  const found = (await response.json().catch(() => ({}))) as Row;
  const text = (key: string) => (typeof found[key] === "string" ? (found[key] as string) : undefined);
  return new Refused(
    response.status,
    text("title") ?? response.statusText,
    text("detail") ?? "",
    text("column"),
    text("hint"),
  );
}

/** One call; throws `Refused`. */
export async function call<T>(method: string, path: string, body?: unknown): Promise<T> {
  const json = body === undefined ? {} : { "Content-Type": "application/json" };
  const response = await fetch(path, {
    method,
    headers: headers({ Accept: "application/json", ...json }),
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  if (!response.ok) throw await refusal(response);
  return (response.status === 204 ? undefined : await response.json()) as T;
}

export const streamPath = (stream: string): string => `/v1/streams/${encodeURIComponent(stream)}`;
export const subscriptionPath = (stream: string, id: Id): string =>
  `${streamPath(stream)}/subscriptions/${encodeURIComponent(String(id))}`;

/** Listen until the function that is returned is called; goes on behind the last event after a break. */
export function listen(path: string, hear: (event: string, data: Row) => void, lost?: (error: unknown) => void): () => void {
  const stop = new AbortController();
  let last = "";
  const run = async () => {
    for (let pause = 500; !stop.signal.aborted; pause = Math.min(pause * 2, 10_000)) {
      try {
        const response = await fetch(path, {
          headers: headers({ Accept: "text/event-stream", ...(last ? { "Last-Event-ID": last } : {}) }),
          signal: stop.signal,
        });
        if (!response.ok || !response.body) throw await refusal(response);
        pause = 500;
        await read(response.body, (event, data, id) => {
          if (id) last = id;
          if (data) hear(event, JSON.parse(data) as Row);
        });
      } catch (error) {
        if (stop.signal.aborted) return;
        lost?.(error);
        if (error instanceof Refused && error.status < 500 && error.status !== 429) return;
      }
      await new Promise((done) => setTimeout(done, pause));
    }
  };
  void run();
  return () => stop.abort();
}

async function read(
  body: ReadableStream<Uint8Array>,
  hear: (event: string, data: string, id: string) => void,
): Promise<void> {
  const reader = body.pipeThrough(new TextDecoderStream() as unknown as TransformStream<Uint8Array, string>).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    const parts = rest.split("\n\n");
    rest = parts.pop() ?? "";
    for (const part of parts) {
      const fields: Record<string, string> = {};
      for (const line of part.split("\n")) {
        const at = line.indexOf(":");
        if (at > 0) fields[line.slice(0, at)] = line.slice(at + 1).trimStart();
      }
      hear(fields["event"] ?? "message", fields["data"] ?? "", fields["id"] ?? "");
    }
  }
}
