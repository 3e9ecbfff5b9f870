/** Ranked matching: an event typed in, its best subscriptions, and how many were never looked at. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { type Row, type Stream, call, streamPath } from "./api.ts";
import { PublishForm } from "./forms.tsx";
import { count, shown } from "./format.ts";
import type { Live } from "./live.ts";
import { toSubscription } from "./route.ts";

/** An event that was tried, with what it matched. */
export interface Tried {
  event: Row;
  rows: Row[];
  looked: number | null;
  all: number;
}

export function MatchesView({ live, found, setFound }: { live: Live; found: Tried | null; setFound(found: Tried): void }): JSX.Element {
  const [before, setBefore] = useState<number | null>(null);
  const candidates = async () => {
    const stream = await call<Stream>("GET", streamPath(live.name));
    return { looked: Number(stream.stats?.["candidates"] ?? NaN), all: stream.subscriptions };
  };
  return (
    <div class="matches" onFocusCapture={() => void candidates().then((each) => setBefore(each.looked))}>
      <h3>Try an event</h3>
      <PublishForm
        live={live}
        name="publish"
        answered={async (answer, event) => {
          const after = await candidates();
          const looked = before !== null && Number.isFinite(after.looked) ? after.looked - before : null;
          setBefore(after.looked);
          setFound({ event, rows: (answer["rows"] as Row[]) ?? [], looked, all: after.all });
        }}
      />
      {found && (
        <div data-testid="matches">
          {found.looked !== null && (
            <p>
              <b>{count(found.looked)}</b> of {count(found.all)} subscriptions were looked at, <b>{count(Math.max(0, found.all - found.looked))}</b> never.
            </p>
          )}
          <table>
            <thead>
              <tr><th>rank</th><th>subscription</th><th class="right">score</th></tr>
            </thead>
            <tbody>
              {found.rows.map((row) => (
                <tr key={String(row["rank"])}>
                  <td>{shown(row["rank"])}</td>
                  <td><a href={toSubscription(live.name, String(row["subscription"]))}>{shown(row["subscription"])}</a></td>
                  <td class="right">{shown(row["score"])}</td>
                </tr>
              ))}
            </tbody>
          </table>
          {!found.rows.length && <p class="muted">No subscription matches.</p>}
        </div>
      )}
    </div>
  );
}
