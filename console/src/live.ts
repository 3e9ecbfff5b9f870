/** What is known of one stream while it is looked at: its description, subscriptions, writes. */

import { type Signal, signal } from "@preact/signals";
import { type Id, type Row, type Stream, call, listen, streamPath } from "./api.ts";

export interface Write {
  call: string;
  rows: Row[];
  count: number;
  deltas: number;
  at: number;
  sequence: number;
}

/** The load at some time, for charts. */
export interface Sample {
  time: number;
  written: number;
  rate: number | null; // not known at first
  p50: number | null;
  p99: number | null;
  queue: number;
}

const KEPT_WRITES = 300;
const KEPT_SAMPLES = 180;
const SMOOTH = 5; // samples over which a rate is taken

export class Live {
  readonly stream: Signal<Stream | null> = signal(null);
  readonly writes: Signal<Write[]> = signal([]);
  readonly samples: Signal<Sample[]> = signal([]);
  readonly trouble: Signal<string> = signal("");
  /** The list of the subscription that is looked at, for the pictures. */
  readonly list: Signal<Item[]> = signal([]);
  private readonly stops: (() => void)[] = [];
  private readonly heard = new Set<(write: Write) => void>();

  constructor(readonly name: string) {}

  open(): () => void {
    const refresh = async () => {
      try {
        const found = await call<Stream>("GET", streamPath(this.name));
        this.sample(found);
        this.stream.value = found;
        this.trouble.value = "";
      } catch (error) {
        this.trouble.value = String(error instanceof Error ? error.message : error);
      }
    };
    this.stops.push(again(1000, refresh));
    this.stops.push(
      listen(
        `${streamPath(this.name)}/writes?last=${KEPT_WRITES}`,
        (event, data) => {
          if (event !== "write") return;
          const write = data as unknown as Write;
          this.writes.value = [...this.writes.value.slice(-KEPT_WRITES + 1), write];
          for (const hear of this.heard) hear(write);
        },
        () => undefined,
      ),
    );
    return () => this.stops.splice(0).forEach((stop) => stop());
  }

  /** Hear of writes, those of before too. */
  onWrite(hear: (write: Write) => void): () => void {
    for (const write of this.writes.value) hear(write);
    this.heard.add(hear);
    return () => this.heard.delete(hear);
  }

  private sample(found: Stream): void {
    const time = Date.now() / 1000;
    const before = this.samples.value.at(-SMOOTH) ?? this.samples.value[0];
    const passed = before ? time - before.time : 0;
    const rate = before && passed > 0 ? Math.max(0, found.load.written - before.written) / passed : null;
    const sample = { time, written: found.load.written, rate, p50: found.load.p50, p99: found.load.p99, queue: found.load.queue };
    this.samples.value = [...this.samples.value.slice(-KEPT_SAMPLES + 1), sample];
  }
}

/** Do something now and again, so many milliseconds behind its end, until the function that is returned is called. */
export function again(pause: number, run: () => Promise<void>): () => void {
  let timer = 0;
  let over = false;
  const turn = async () => {
    await run();
    if (!over) timer = window.setTimeout(() => void turn(), pause);
  };
  void turn();
  return () => {
    over = true;
    clearTimeout(timer);
  };
}

/** The attributes of a stream's engine. */
export function overOf(live: Live): string[] {
  const found = live.stream.value?.configuration?.["over"] ?? [];
  return (Array.isArray(found) ? found : [found]).map(String);
}

/** Whether a write may change what is known of a subscription: it names it, or an object, or more rows than are told. */
export function concerns(write: Write, id: string): boolean {
  if (write.call === "upsert" || write.call === "remove") return true;
  return write.rows.length < write.count || write.rows.some((row) => String(row["id"]) === id);
}

/** A function that runs at once and then at most every so many milliseconds, the last call included. */
export function atMost(every: number, run: () => void): { call(): void; stop(): void } {
  let timer = 0;
  let waits = false;
  const call = () => {
    if (timer) return void (waits = true);
    run();
    timer = window.setTimeout(() => {
      timer = 0;
      if (waits) call();
    }, every);
    waits = false;
  };
  return { call, stop: () => clearTimeout(timer) };
}

/** The first subscriptions of a stream, at most so many. */
export async function subscriptions(stream: string, most: number, more = ""): Promise<Row[]> {
  const found = await call<{ rows: Row[] }>("GET", `${streamPath(stream)}/subscriptions?limit=${most}${more}`);
  return found.rows;
}

export interface Item {
  item: Id;
  score: number | null;
  rank: number;
}

/** A list with a batch of deltas applied: what is not named keeps its order. */
export function applied(list: Item[], deltas: Row[]): Item[] {
  const named = new Set(deltas.map((row) => row["item"]));
  const next = list.filter((each) => !named.has(each.item));
  const coming = deltas
    .filter((row) => row["op"] !== "leave")
    .sort((a, b) => Number(a["rank"] ?? 0) - Number(b["rank"] ?? 0));
  for (const row of coming) {
    const rank = Number(row["rank"] ?? next.length + 1);
    next.splice(rank - 1, 0, { item: row["item"] as Id, score: row["score"] as number | null, rank });
  }
  return next.map((each, place) => ({ ...each, rank: place + 1 }));
}
