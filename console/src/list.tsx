/** One subscription: its list as it changes, and why an item is there. */

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { type Id, type Row, call, listen, streamPath, subscriptionPath } from "./api.ts";
import { scores, shown } from "./format.ts";
import { type Item, type Live, applied, atMost, concerns } from "./live.ts";

type Change = "enter" | "update" | "leave" | "up" | "down";

interface Shown extends Item {
  change: Change | null;
  stamp: number;
}

const ROW = 46; // pixels
const STAY = 2500; // milliseconds for which a change is marked, and one that left is seen

const itemsOf = (rows: Row[]): Item[] =>
  rows.map((row) => ({ item: row["item"] as Id, score: row["score"] as number | null, rank: Number(row["rank"]) }));

/** The list of a subscription, kept current. Scores of moving queries change with every step that is sent: asked for then. */
export function useList(live: Live, id: string): { items: Shown[]; known: boolean; changes: number } {
  const [items, setItems] = useState<Shown[]>([]);
  const [known, setKnown] = useState(false);
  const [changes, setChanges] = useState(0);
  const moving = live.stream.value?.inputs?.["upsert"] !== undefined;
  useEffect(() => {
    let last: Item[] = [];
    let begun = false;
    const show = (next: Item[], deltas: Row[]) => {
      const ops = new Map(deltas.map((row) => [row["item"], row["op"] as Change]));
      const ranks = new Map(last.map((each) => [each.item, each.rank]));
      const stamp = Date.now();
      const staying: Shown[] = next.map((each) => {
        const before = ranks.get(each.item);
        const moved = before === undefined || before === each.rank ? null : before > each.rank ? "up" : "down";
        return { ...each, change: ops.get(each.item) ?? moved, stamp };
      });
      const here = new Set(next.map((each) => each.item));
      setItems((old) => {
        const marks = new Map(old.map((each) => [each.item, each]));
        const kept = staying.map((each) => {
          const was = marks.get(each.item);
          return each.change === null && was?.change && was.change !== "leave" ? { ...each, change: was.change, stamp: was.stamp } : each;
        });
        const gone = [
          ...old.filter((each) => each.change === "leave" && !here.has(each.item) && stamp - each.stamp < STAY),
          ...last.filter((each) => !here.has(each.item)).map((each) => ({ ...each, change: "leave" as const, stamp })),
        ];
        return [...kept, ...gone];
      });
      last = live.list.value = next;
    };
    const ask = async () => {
      const found = await call<{ rows: Row[] }>("GET", `${subscriptionPath(live.name, id)}/results`).catch(() => null);
      if (!found || !begun) return;
      const next = itemsOf(found.rows);
      const before = new Set(last.map((each) => each.item));
      show(next, next.filter((each) => !before.has(each.item)).map((each) => ({ item: each.item, op: "enter" })));
    };
    const soon = atMost(400, () => void ask());
    const stop = listen(`${streamPath(live.name)}/deltas?subscription=${encodeURIComponent(id)}`, (event, data) => {
      const rows = (data["rows"] as Row[] | undefined) ?? [];
      if (event === "snapshot") {
        begun = true;
        last = live.list.value = itemsOf(rows);
        setItems(last.map((each) => ({ ...each, change: null, stamp: 0 })));
        setKnown(true);
      } else if (event === "delta") {
        setChanges((count) => count + rows.length);
        show(applied(last, rows), rows);
        if (moving) soon.call();
      }
    });
    const fade = setInterval(() => {
      const now = Date.now();
      setItems((old) =>
        old.some((each) => each.change && now - each.stamp > STAY)
          ? old.filter((each) => each.change !== "leave" || now - each.stamp <= STAY).map((each) => (now - each.stamp > STAY ? { ...each, change: null } : each))
          : old,
      );
    }, 400);
    const forget = moving ? live.onWrite((write) => begun && concerns(write, id) && soon.call()) : () => false;
    return () => {
      begun = false;
      stop();
      forget();
      soon.stop();
      clearInterval(fade);
      live.list.value = [];
      setItems([]);
      setKnown(false);
      setChanges(0);
    };
  }, [live, id, moving]);
  return { items, known, changes };
}

const WORDS: Record<Change, string> = { enter: "enters", update: "new score", leave: "leaves", up: "up", down: "down" };

export function LiveList({ live, id }: { live: Live; id: string }): JSX.Element {
  const { items, known, changes } = useList(live, id);
  const [asked, setAsked] = useState<Id | null>(null);
  const staying = items.filter((each) => each.change !== "leave");
  const leaving = items.filter((each) => each.change === "leave");
  const rows = [...staying, ...leaving];
  const texts = scores(rows.map((each) => each.score));
  return (
    <section aria-label={`List of ${id}`}>
      <p class="muted small" data-testid="changes">
        {known ? `${staying.length} items · ${changes} changes since you opened it` : "waiting for the first list …"}
      </p>
      <ol class="live" style={{ height: `${Math.max(1, rows.length) * ROW}px` }} data-testid="list">
        {rows.map((each, place) => (
          <li
            key={`${each.change === "leave" ? "gone" : "here"} ${each.item}`}
            class={each.change ?? ""}
            style={{ transform: `translateY(${place * ROW}px)` }}
          >
            <button type="button" onClick={() => setAsked(each.item)} aria-expanded={asked === each.item} title="Why is it here?">
              <span class="rank">{each.change === "leave" ? "" : each.rank}</span>
              <span class="item">{shown(each.item)}</span>
              {each.change && <span class={`tag ${each.change}`}>{WORDS[each.change]}</span>}
              <span class="score">{each.change === "leave" ? "" : texts[place]}</span>
            </button>
          </li>
        ))}
      </ol>
      {known && !rows.length && <p class="muted">Nothing yet: no item fits.</p>}
      <Explain live={live} id={id} item={asked} close={() => setAsked(null)} ask={setAsked} />
    </section>
  );
}

/** Why an item is or is not in a list, in the engine's words. */
function Explain(props: { live: Live; id: string; item: Id | null; close(): void; ask(item: Id): void }): JSX.Element {
  const { live, id, item, close, ask } = props;
  const [found, setFound] = useState<Row | string | null>(null);
  const other = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (item === null) return setFound(null);
    let current = true;
    call<Row>("GET", `${subscriptionPath(live.name, id)}/explain?item=${encodeURIComponent(String(item))}`)
      .then((row) => current && setFound(row))
      .catch((error: unknown) => current && setFound(String(error instanceof Error ? error.message : error)));
    return () => {
      current = false;
    };
  }, [live, id, item]);
  return (
    <div>
      <form
        class="inline"
        onSubmit={(event) => {
          event.preventDefault();
          const value = other.current?.value.trim();
          if (value) ask(value);
        }}
      >
        <label>
          Why is another item not there? <input ref={other} placeholder="id of an item" />
        </label>
        <button type="submit">Explain</button>
      </form>
      {item !== null && found !== null && (
        <div class="explain" role="status" data-testid="explanation">
          <header>
            <strong>{shown(item)}</strong>
            <button type="button" class="plain" aria-label="Close the explanation" onClick={close}>×</button>
          </header>
          {typeof found === "string" ? <p class="error">{found}</p> : <Reasons found={found} />}
        </div>
      )}
    </div>
  );
}

/** What the sentence says, or what is only for gateways. */
const SAID = new Set(["sequence", "subscription", "item", "tiles", "reason", "in_result", "rank", "score", "pruned_by"]);

function worded(value: unknown): string {
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (Array.isArray(value)) return value.length ? value.map(shown).join(", ") : "none";
  return shown(value);
}

function Reasons({ found }: { found: Row }): JSX.Element {
  const rows = Object.entries(found).filter(([name, value]) => !SAID.has(name) && value !== null);
  return (
    <>
      <p>{sentence(found)}</p>
      <dl>
        {rows.map(([name, value]) => (
          <div key={name}>
            <dt>{name.replaceAll("_", " ")}</dt>
            <dd>{worded(value)}</dd>
          </div>
        ))}
      </dl>
    </>
  );
}

/** The gist of an explanation. */
export function sentence(found: Row): string {
  const [rank, beat, reason, pruned] = [found["rank"], found["score_to_beat"], found["reason"], found["pruned_by"]];
  if (found["in_result"] === true) {
    const score = found["score"] == null ? "" : `, with a score of ${shown(found["score"])}`;
    return `It is number ${shown(rank)} of the list${score}.`;
  }
  const parts = ["It is not in the list"];
  if (typeof found["score"] === "number") parts.push(`its score is ${shown(found["score"])}`);
  if (typeof beat === "number" && Number.isFinite(beat)) parts.push(`it would need a score better than ${shown(beat)}`);
  if (typeof reason === "string") parts.push(reason);
  if (typeof pruned === "string") parts.push(`pruned by ${pruned}`);
  return `${parts.join("; ")}.`;
}
