/** All streams, with what they have to do. */

import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { type Stream, call } from "./api.ts";
import { ENGINES, count, milliseconds, rate } from "./format.ts";
import { again } from "./live.ts";
import { toStream } from "./route.ts";

const KEPT = 60;
const SMOOTH = 5; // samples over which a rate is taken

export function StreamsView(): JSX.Element {
  const streams = useSignal<Stream[] | null>(null);
  const [trouble, setTrouble] = useState("");
  const rates = useRef(new Map<string, { seen: [time: number, written: number][]; rates: number[] }>());
  useEffect(() => {
    const refresh = async () => {
      try {
        const found = await call<{ streams: Stream[] }>("GET", "/v1/streams");
        const time = Date.now() / 1000;
        for (const each of found.streams) {
          const known = rates.current.get(each.name) ?? { seen: [], rates: [] };
          const [before, written] = known.seen[0] ?? [time, each.load.written];
          const now = time > before ? Math.max(0, each.load.written - written) / (time - before) : 0;
          const seen: [number, number][] = [...known.seen, [time, each.load.written]];
          rates.current.set(each.name, { seen: seen.slice(-SMOOTH), rates: [...known.rates, now].slice(-KEPT) });
        }
        streams.value = found.streams;
        setTrouble("");
      } catch (error) {
        setTrouble(error instanceof Error ? error.message : String(error));
      }
    };
    return again(1000, refresh);
  }, []);
  return (
    <main class="streams">
      <h1>Streams</h1>
      {trouble && <p class="error">{trouble}</p>}
      {streams.value?.length === 0 && <Empty />}
      <ul class="cards" data-testid="streams">
        {streams.value?.map((each) => {
          const known = rates.current.get(each.name)?.rates ?? [];
          return (
            <li key={each.name}>
              <a class="card" href={toStream(each.name)}>
                <span class="card-head"><b>{each.name}</b> <span class="muted">{each.engine}</span></span>
                <span class="muted small">{ENGINES[each.engine] ?? "an engine of your own"}</span>
                <Spark values={known} />
                <span class="grid-facts">
                  <span><b>{rate(known.at(-1) ?? 0)}</b> writes/s</span>
                  <span><b>{count(each.subscriptions)}</b> subscriptions</span>
                  <span><b>{count(each.load.queue)}</b> waiting</span>
                  <span><b>{milliseconds(each.load.p50)}</b> median</span>
                  <span><b>{milliseconds(each.load.p99)}</b> 99%</span>
                  <span class={each.load.refused ? "warn" : ""}><b>{count(each.load.refused)}</b> refused</span>
                </span>
              </a>
            </li>
          );
        })}
      </ul>
    </main>
  );
}

function Spark({ values }: { values: number[] }): JSX.Element {
  const most = Math.max(1e-9, ...values);
  const points = values.map((each, place) => `${200 - ((values.length - 1 - place) / (KEPT - 1)) * 200},${38 - (each / most) * 34}`);
  return (
    <svg class="spark" viewBox="0 0 200 40" preserveAspectRatio="none" aria-hidden="true">
      <line x1="0" y1="38" x2="200" y2="38" stroke="currentColor" stroke-width="1" opacity="0.25" vector-effect="non-scaling-stroke" />
      <polyline points={points.join(" ")} fill="none" stroke="currentColor" stroke-width="1.5" vector-effect="non-scaling-stroke" />
    </svg>
  );
}

function Empty(): JSX.Element {
  return (
    <div class="panel">
      <p>There is no stream yet. Make one:</p>
      <pre>{`curl -X PUT ${location.origin}/v1/streams/stocks \\\n  --json '{"engine": "RangeTopK", "settings": {"over": "risk", "by": "pe", "k": 3}}'`}</pre>
      <p>
        Or see six of them at work: <code>rankcast demo live</code>. All calls: <a href="/docs">commands</a>.
      </p>
    </div>
  );
}
