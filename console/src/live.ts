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
  rate: number;
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
  /** Grows with every write: something to look at for what depends on writes. */
  readonly beat: Signal<number> = signal(0);
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
    void refresh();
    const timer = setInterval(refresh, 1000);
    this.stops.push(() => clearInterval(timer));
    this.stops.push(
      listen(
        `${streamPath(this.name)}/writes?last=${KEPT_WRITES}`,
        (event, data) => {
          if (event !== "write") return;
          const write = data as unknown as Write;
          this.writes.value = [...this.writes.value.slice(-KEPT_WRITES + 1), write];
          this.beat.value += 1;
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
    const rate = before && passed > 0 ? Math.max(0, found.load.written - before.written) / passed : 0;
    const sample = { time, written: found.load.written, rate, p50: found.load.p50, p99: found.load.p99, queue: found.load.queue };
    this.samples.value = [...this.samples.value.slice(-KEPT_SAMPLES + 1), sample];
  }
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
