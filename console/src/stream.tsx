/** One stream: its geometry, its subscriptions, writes as they come, forms. */

import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { type Row, call, streamPath, subscriptionPath } from "./api.ts";
import { BoxesView } from "./boxes.tsx";
import { Chart } from "./charts.tsx";
import { type Drawn, PublishForm, SubscribeForm } from "./forms.tsx";
import { ENGINES, bytes, count, details, milliseconds, rate, shown } from "./format.ts";
import { LiveList } from "./list.tsx";
import { Live } from "./live.ts";
import { PlacesView } from "./map.tsx";
import { MatchesView, type Tried } from "./matches.tsx";
import { RangesView } from "./ranges.tsx";
import { home, toStream, toSubscription } from "./route.ts";

type Tab = "subscriptions" | "events" | "publish" | "subscribe" | "settings";

export function StreamView({ name, selected }: { name: string; selected: string | null }): JSX.Element {
  const live = useMemo(() => new Live(name), [name]);
  useEffect(() => live.open(), [live]);
  const [drawn, setDrawn] = useState<Drawn>({});
  const [tab, setTab] = useState<Tab>("subscriptions");
  const stream = live.stream.value;
  if (!stream) return <p class="pad">{live.trouble.value || "Loading …"}</p>;
  const draw = (row: Drawn) => {
    setDrawn(row);
    setTab("subscribe");
    if (selected !== null) location.hash = toStream(name);
  };
  const last = live.samples.value.at(-1);
  return (
    <main class="stream">
      <header class="title">
        <h1>
          <a href={home} aria-label="All streams">Streams</a> / {selected === null ? name : <a href={toStream(name)}>{name}</a>}
          {selected !== null && <> / {selected}</>}
        </h1>
        <p class="muted">
          {stream.engine}: {ENGINES[stream.engine] ?? "an engine of your own"}
        </p>
        <ul class="facts">
          <li><b>{count(stream.subscriptions)}</b> subscriptions</li>
          <li><b>{rate(last?.rate ?? 0)}</b> writes a second</li>
          <li><b>{milliseconds(stream.load.p50)}</b> median</li>
          <li><b>{milliseconds(stream.load.p99)}</b> 99%</li>
          <li><b>{count(stream.load.queue)}</b> waiting</li>
          <li class={stream.load.refused ? "warn" : ""}><b>{count(stream.load.refused)}</b> refused</li>
          <li><b>{count(stream.load.receivers)}</b> listening</li>
          <li class="muted">write {count(stream.sequence)}</li>
        </ul>
        {live.trouble.value && <p class="error">{live.trouble.value}</p>}
      </header>
      <section class="geometry" aria-label="Geometry">
        <Geometry live={live} selected={selected} draw={draw} />
        <div class="charts">
          <Chart title="Writes" unit="a second" samples={live.samples.value} lines={[{ label: "writes", colour: "enter", value: (each) => each.rate }]} />
          <Chart
            title="Answered within"
            unit="milliseconds"
            samples={live.samples.value}
            lines={[
              { label: "median", colour: "people", value: (each) => (each.p50 === null ? null : each.p50 * 1000) },
              { label: "99%", colour: "fresh", value: (each) => (each.p99 === null ? null : each.p99 * 1000) },
            ]}
          />
        </div>
      </section>
      <aside class="side">
        {selected === null ? (
          <Tabs live={live} tab={tab} setTab={setTab} drawn={drawn} />
        ) : (
          <One live={live} id={selected} drawn={drawn} />
        )}
      </aside>
    </main>
  );
}

function Geometry({ live, selected, draw }: { live: Live; selected: string | null; draw(row: Drawn): void }): JSX.Element {
  const inputs = live.stream.value?.inputs ?? {};
  const [tried, setTried] = useState<Tried | null>(null);
  const names = new Set((inputs["subscribe"] ?? []).map((each) => each.name));
  const engine = live.stream.value?.engine;
  if (names.has("x") && names.has("y")) {
    return <PlacesView live={live} selected={selected} onPick={(x, y) => draw({ x: x.toPrecision(6), y: y.toPrecision(6) })} />;
  }
  if (engine === "RangeTopK") return <RangesView live={live} selected={selected} onDraw={draw} />;
  if (engine === "CoveringTable") return <BoxesView live={live} selected={selected} />;
  if (engine === "RankedMatcher") {
    return (
      <div class="pair">
        <MatchesView live={live} found={tried} setFound={setTried} />
        <BoxesView live={live} selected={selected} tried={tried} />
      </div>
    );
  }
  return <p class="muted pad">This engine has no picture; its lists are on the right.</p>;
}

const TABS: [Tab, string][] = [
  ["subscriptions", "Subscriptions"],
  ["events", "Events"],
  ["subscribe", "Subscribe"],
  ["publish", "Publish"],
  ["settings", "Settings"],
];

function Tabs({ live, tab, setTab, drawn }: { live: Live; tab: Tab; setTab(tab: Tab): void; drawn: Drawn }): JSX.Element {
  const inputs = live.stream.value?.inputs ?? {};
  const there = TABS.filter(([name]) => name !== "subscribe" || inputs["subscribe"]).filter(
    ([name]) => name !== "publish" || inputs["publish"],
  );
  const turn = (event: KeyboardEvent) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = there[(there.findIndex(([name]) => name === tab) + step + there.length) % there.length];
    if (!next) return;
    setTab(next[0]);
    document.getElementById(`tab-${next[0]}`)?.focus();
    event.preventDefault();
  };
  return (
    <>
      <div class="tabs" role="tablist" aria-label="Panels" onKeyDown={turn}>
        {there.map(([name, title]) => (
          <button
            key={name}
            type="button"
            role="tab"
            id={`tab-${name}`}
            aria-selected={tab === name}
            aria-controls="panel"
            tabIndex={tab === name ? 0 : -1}
            onClick={() => setTab(name)}
          >
            {title}
          </button>
        ))}
      </div>
      <div class="panel" id="panel" role="tabpanel" aria-labelledby={`tab-${tab}`}>
        {tab === "subscriptions" && <Subscriptions live={live} />}
        {tab === "events" && <Events live={live} />}
        {tab === "subscribe" && (
          <>
            <p class="muted small">Type, or click into the picture. Every change is tried on the retained events, without registering anything.</p>
            <SubscribeForm live={live} drawn={drawn} />
          </>
        )}
        {tab === "publish" && (
          <>
            <PublishForm live={live} name="publish" />
            {inputs["upsert"] && (
              <>
                <h3>An object</h3>
                <PublishForm live={live} name="upsert" />
              </>
            )}
          </>
        )}
        {tab === "settings" && <Settings live={live} />}
      </div>
    </>
  );
}

function Subscriptions({ live }: { live: Live }): JSX.Element {
  const [prefix, setPrefix] = useState("");
  const [rows, setRows] = useState<Row[]>([]);
  const [more, setMore] = useState(false);
  useEffect(() => {
    let current = true;
    const ask = () =>
      void call<{ rows: Row[]; next: unknown }>("GET", `${streamPath(live.name)}/subscriptions?limit=50&prefix=${encodeURIComponent(prefix)}`)
        .then((found) => {
          if (!current) return;
          setRows(found.rows);
          setMore(found.next !== null);
        })
        .catch(() => current && setRows([]));
    const soon = setTimeout(ask, 150);
    const timer = setInterval(ask, 3000);
    return () => {
      current = false;
      clearTimeout(soon);
      clearInterval(timer);
    };
  }, [live, prefix]);
  return (
    <>
      <label class="search">
        Find by id <input type="search" value={prefix} onInput={(event) => setPrefix(event.currentTarget.value)} placeholder="how it begins" />
      </label>
      <ul class="rows" data-testid="subscriptions">
        {rows.map((row) => (
          <li key={String(row["id"])}>
            <a href={toSubscription(live.name, row["id"] as string)}>
              <b>{shown(row["id"])}</b> <span class="muted">{details(row)}</span>
            </a>
          </li>
        ))}
      </ul>
      {!rows.length && <p class="muted">{prefix ? "No id begins like that." : "No subscription yet."}</p>}
      {more && <p class="muted small">The first 50; type more of the id.</p>}
    </>
  );
}

function Events({ live }: { live: Live }): JSX.Element {
  const writes = live.writes.value.slice(-60).reverse();
  return (
    <ol class="rows writes" data-testid="events">
      {writes.map((write) => (
        <li key={`${write.sequence} ${write.call}`}>
          <span class="muted small">
            {new Date(write.at * 1000).toLocaleTimeString()} · write {count(write.sequence)} · {write.call} · {count(write.count)} rows · {count(write.deltas)} changes
          </span>
          {write.rows.slice(0, 2).map((row, place) => (
            <div key={place}>
              <b>{shown(row["id"])}</b> <span class="muted">{details(row)}</span>
            </div>
          ))}
          {write.count > 2 && <div class="muted small">and {count(write.count - 2)} more</div>}
        </li>
      ))}
      {!writes.length && <li class="muted">Nothing was written yet.</li>}
    </ol>
  );
}

function Settings({ live }: { live: Live }): JSX.Element {
  const stream = live.stream.value;
  const rows = (found: Row | undefined) =>
    Object.entries(found ?? {}).map(([name, value]) => (
      <tr key={name}><th scope="row">{name.replaceAll("_", " ")}</th><td>{typeof value === "number" ? count(value) : shown(value)}</td></tr>
    ));
  return (
    <>
      <h3>Settings</h3>
      <table class="plain"><tbody>{rows(stream?.configuration)}</tbody></table>
      <h3>Counters</h3>
      <table class="plain"><tbody>{rows(stream?.stats)}</tbody></table>
      <p class="muted small">The log holds {bytes(stream?.load.log_bytes ?? 0)} for those who resume and for dry runs.</p>
    </>
  );
}

/** One subscription: as registered, its list, amending, removing. */
function One({ live, id, drawn }: { live: Live; id: string; drawn: Drawn }): JSX.Element {
  const [row, setRow] = useState<Row | null>(null);
  const [gone, setGone] = useState("");
  const [amending, setAmending] = useState(false);
  const engine = live.stream.value?.engine ?? "";
  const keeps = engine !== "RankedMatcher" && engine !== "CoveringTable";
  useEffect(() => {
    setRow(null);
    setGone("");
    call<Row>("GET", subscriptionPath(live.name, id))
      .then((found) => setRow({ id, ...found }))
      .catch((error: unknown) => engine !== "external" && setGone(error instanceof Error ? error.message : String(error)));
  }, [live, id]);
  const remove = async () => {
    if (!confirm(`End the subscription ${id}?`)) return;
    await call("DELETE", subscriptionPath(live.name, id)).catch((error: unknown) => setGone(String(error)));
    location.hash = toStream(live.name);
  };
  return (
    <div class="panel one">
      <header>
        <h2>{shown(id)}</h2>
        {row && (
          <span class="actions">
            <button type="button" onClick={() => setAmending(!amending)} aria-expanded={amending}>Amend</button>
            <button type="button" class="danger" onClick={remove}>Remove</button>
          </span>
        )}
      </header>
      {gone && <p class="error">{gone}</p>}
      {row && <p class="muted small">{details(row)}</p>}
      {amending && row && <SubscribeForm live={live} drawn={drawn} existing={row} />}
      {keeps && !gone && <LiveList live={live} id={id} />}
    </div>
  );
}
