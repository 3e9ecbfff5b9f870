/** Forms made from the columns that an engine takes; refusals in the engine's own words. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { type Column, Refused, type Row, call, streamPath, subscriptionPath } from "./api.ts";
import { count, shown } from "./format.ts";
import { type Live, overOf } from "./live.ts";
import { toSubscription } from "./route.ts";

/** What somebody typed, as the column wants it; a text that is not is told. */
export function value(column: Column, text: string): { value: unknown; wrong: string } {
  const trimmed = text.trim();
  if (!trimmed) return { value: null, wrong: "" };
  const number = Number(trimmed.replace(",", "."));
  switch (column.kind) {
    case "number":
      if (/^\d{4}-\d\d-\d\d/.test(trimmed)) return { value: trimmed, wrong: "" };
      return { value: number, wrong: Number.isFinite(number) ? "" : "a finite number is needed" };
    case "count":
      return { value: number, wrong: Number.isInteger(number) && number >= 1 ? "" : "a whole number from 1 on is needed" };
    case "vector": {
      const parts = trimmed.split(/[\s,]+/).map(Number);
      return { value: parts, wrong: parts.every(Number.isFinite) ? "" : "numbers with commas between them are needed" };
    }
    case "terms":
    case "names":
    case "categories":
      return { value: trimmed.split(/[\s,]+/).filter(Boolean), wrong: "" };
    case "id":
    case "name":
    case "category":
      return { value: /^-?\d{1,15}$/.test(trimmed) ? Number(trimmed) : trimmed, wrong: "" };
    default:
      return { value: trimmed, wrong: "" };
  }
}

const HINTS: Record<string, string> = { terms: "words", vector: "numbers", time: "2026-01-31T12:00:00", categories: "values", names: "ids" };

interface FieldsProps {
  columns: Column[];
  over: string[]; // attributes of the engine
  texts: Record<string, string>;
  set(name: string, text: string): void;
  refused: Refused | null;
}

/** Columns that most people never fill are behind a word, if there are many. */
function Fields(props: FieldsProps): JSX.Element {
  const { columns, over, texts, refused } = props;
  // The ends of a range, unless one value may be given instead.
  const isEnd = (name: string) => {
    const base = name.replace(/_(lo|hi)$/, "");
    return base !== name && over.includes(base) && !columns.some((each) => each.name === base);
  };
  const usual = (each: Column) =>
    each.required || COMMON.has(each.name) || over.includes(each.name) || isEnd(each.name);
  const rare = columns.length > FEW ? columns.filter((each) => !usual(each)) : [];
  const filled = rare.some((each) => texts[each.name] || refused?.column === each.name);
  return (
    <>
      <FieldGrid {...props} columns={columns.filter((each) => !rare.includes(each))} />
      {rare.length > 0 && (
        <details open={filled}>
          <summary>{rare.length} more columns, all optional</summary>
          <FieldGrid {...props} columns={rare} />
        </details>
      )}
    </>
  );
}

const FEW = 8; // columns that are all shown
const COMMON = new Set(["x", "y", "terms", "text", "k", "score", "time"]);

function FieldGrid({ columns, texts, set, refused }: FieldsProps): JSX.Element {
  return (
    <div class="fields">
      {columns.map((column) => {
        const text = texts[column.name] ?? "";
        const wrong = value(column, text).wrong || (refused?.column === column.name ? refused.detail : "");
        return (
          <label key={column.name} class={wrong ? "wrong" : ""}>
            <span>
              {column.name}
              {column.required ? "" : " (optional)"}
            </span>
            {column.words?.length ? (
              <select value={text} onChange={(event) => set(column.name, event.currentTarget.value)}>
                <option value="">–</option>
                {column.words.map((word) => <option key={word}>{word}</option>)}
              </select>
            ) : (
              <input
                name={column.name}
                value={text}
                placeholder={HINTS[column.kind] ?? ""}
                aria-invalid={wrong ? "true" : "false"}
                onInput={(event) => set(column.name, event.currentTarget.value)}
              />
            )}
            {wrong && <small class="error">{wrong}</small>}
          </label>
        );
      })}
    </div>
  );
}

function rowOf(columns: Column[], texts: Record<string, string>): { row: Row; wrong: boolean } {
  const row: Row = {};
  let wrong = false;
  for (const column of columns) {
    const found = value(column, texts[column.name] ?? "");
    wrong ||= found.wrong !== "";
    if (found.value !== null) row[column.name] = found.value;
  }
  return { row, wrong };
}

const asRefused = (error: unknown) =>
  error instanceof Refused ? error : new Refused(0, "No answer", String(error), undefined, undefined);

function Said({ refused, done }: { refused: Refused | null; done: string }): JSX.Element {
  return (
    <div role="status" aria-live="polite">
      {refused && (
        <p class="error" data-testid="refused">
          {refused.detail || refused.title}
          {refused.hint && <em> {refused.hint}</em>}
        </p>
      )}
      {!refused && done && <p class="done">{done}</p>}
    </div>
  );
}

/** Publish an event, or an object of moving queries. */
export function PublishForm({ live, name, answered }: { live: Live; name: "publish" | "upsert"; answered?(found: Row, row: Row): void }): JSX.Element {
  const columns = live.stream.value?.inputs?.[name] ?? [];
  const [texts, setTexts] = useState<Record<string, string>>({});
  const [refused, setRefused] = useState<Refused | null>(null);
  const [done, setDone] = useState("");
  const { row, wrong } = rowOf(columns, texts);
  const submit = async (event: Event) => {
    event.preventDefault();
    setRefused(null);
    setDone("");
    try {
      const path = `${streamPath(live.name)}/${name === "publish" ? "events" : "objects"}?return=deltas`;
      const found = await call<Row>("POST", path, row);
      setDone(`Accepted as write ${found["sequence"]}: ${count(Number(found["deltas"] ?? 0))} changes of lists.`);
      answered?.(found, row);
    } catch (error) {
      setRefused(asRefused(error));
    }
  };
  return (
    <form onSubmit={submit} data-testid={`form-${name}`}>
      <Fields columns={columns} over={overOf(live)} texts={texts} refused={refused} set={(key, text) => setTexts({ ...texts, [key]: text })} />
      <button type="submit" class="primary" disabled={wrong}>{name === "publish" ? "Publish" : "Insert or replace"}</button>
      <Said refused={refused} done={done} />
    </form>
  );
}

/** What was drawn on a plane, for the form beside it. */
export type Drawn = Record<string, string>;

/** Add, amend or replace a subscription, or see what it would have heard. */
export function SubscribeForm({ live, drawn, existing }: { live: Live; drawn: Drawn; existing?: Row }): JSX.Element {
  const columns = (live.stream.value?.inputs?.["subscribe"] ?? []).filter((each) => each.name !== "id" || !existing);
  const rest = columns.filter((each) => each.name !== "id");
  const [texts, setTexts] = useState<Record<string, string>>(() => textsOf(existing));
  const [refused, setRefused] = useState<Refused | null>(null);
  const [done, setDone] = useState("");
  const [dry, setDry] = useState<Row | null>(null);
  useEffect(() => setTexts((old) => ({ ...old, ...drawn })), [drawn]);
  useEffect(() => existing && setTexts(textsOf(existing)), [existing?.["id"]]);
  const { row, wrong } = rowOf(columns, texts);
  const id = existing?.["id"] ?? row["id"];

  // Checked as one types, by the engine itself: a dry run changes nothing.
  const question = JSON.stringify(rowOf(rest, texts).row);
  useEffect(() => {
    if (wrong || question === "{}") return;
    const timer = setTimeout(async () => {
      try {
        setDry(await call<Row>("POST", `${streamPath(live.name)}/dryrun`, JSON.parse(question)));
        setRefused(null);
      } catch (error) {
        const found = asRefused(error);
        setDry(null);
        if (found.status !== 429) setRefused(found);
      }
    }, 500);
    return () => clearTimeout(timer);
  }, [question, wrong]);

  const submit = async (event: Event) => {
    event.preventDefault();
    setRefused(null);
    setDone("");
    if (id === undefined) return setRefused(new Refused(400, "", "A subscription needs an id.", "id", undefined));
    const { id: _, ...body } = row;
    try {
      const found = await call<Row>(existing ? "PATCH" : "PUT", subscriptionPath(live.name, id as string), existing ? body : row);
      setDone(existing ? "Amended." : `Registered; its list has ${count((found["results"] as Row[]).length)} items.`);
      if (!existing) location.hash = toSubscription(live.name, id as string);
    } catch (error) {
      setRefused(asRefused(error));
    }
  };
  const rows = (dry?.["rows"] as Row[] | undefined) ?? [];
  const results = (dry?.["results"] as Row[] | undefined) ?? [];
  return (
    <form onSubmit={submit} data-testid="form-subscribe">
      <Fields columns={columns} over={overOf(live)} texts={texts} refused={refused} set={(key, text) => setTexts({ ...texts, [key]: text })} />
      <button type="submit" class="primary" disabled={wrong}>{existing ? "Amend" : "Subscribe"}</button>
      <Said refused={refused} done={done} />
      {dry && (
        <div class="dry" data-testid="dryrun">
          <p class="small">
            Over the writes {String(dry["from"])} to {String(dry["to"])} it would have heard {count(rows.length)} changes, and its list would be:
          </p>
          <ol class="short">
            {results.slice(0, 10).map((each) => (
              <li key={String(each["item"])}>
                <span>{shown(each["item"])}</span> <span class="score">{shown(each["score"])}</span>
              </li>
            ))}
          </ol>
          {!results.length && <p class="muted small">empty</p>}
        </div>
      )}
    </form>
  );
}

function textsOf(row: Row | undefined): Record<string, string> {
  const found: Record<string, string> = {};
  for (const [name, each] of Object.entries(row ?? {})) {
    if (name === "id" || each === null) continue;
    found[name] = Array.isArray(each) ? each.join(" ") : String(each);
  }
  return found;
}
