/** Boxes over two chosen attributes: of a router, those that it forwards and those that another one covers. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Row } from "./api.ts";
import { count } from "./format.ts";
import { type Live, overOf, subscriptions } from "./live.ts";
import { type Box, type Pen, Plane, drawAxes } from "./plane.tsx";
import type { Tried } from "./matches.tsx";
import { toSubscription } from "./route.ts";

const MOST = 1000;

interface Drawn {
  id: string;
  box: Box;
  forwarded: boolean;
}

export function BoxesView({ live, selected, tried }: { live: Live; selected: string | null; tried?: Tried | null }): JSX.Element {
  const over = overOf(live);
  const [axes, setAxes] = useState<[string, string]>([over[0] ?? "x", over[1] ?? over[0] ?? "y"]);
  const [boxes, setBoxes] = useState<Drawn[]>([]);
  const router = live.stream.value?.engine === "CoveringTable";

  useEffect(() => {
    const end = (row: Row, name: string, otherwise: number) => (row[name] == null ? otherwise : Number(row[name]));
    const refresh = () =>
      void subscriptions(live.name, MOST, router ? "&forwarded=true" : "")
        .then((rows) =>
          setBoxes(
            rows.map((row) => ({
              id: String(row["id"]),
              forwarded: row["forwarded"] !== false,
              box: [
                end(row, `${axes[0]}_lo`, -Infinity),
                end(row, `${axes[1]}_lo`, -Infinity),
                end(row, `${axes[0]}_hi`, Infinity),
                end(row, `${axes[1]}_hi`, Infinity),
              ],
            })),
          ),
        )
        .catch(() => undefined);
    refresh();
    const timer = setInterval(refresh, 1500);
    return () => clearInterval(timer);
  }, [live, axes[0], axes[1]]);

  const finite = boxes.map((each) => each.box);
  const bounds = span(finite);
  const draw = (pen: Pen) => {
    drawAxes(pen, axes[0], axes[1]);
    const { context } = pen;
    const clamp = (value: number, low: number, high: number) => Math.min(Math.max(value, low), high);
    context.save();
    const matched = new Set(tried?.rows.map((row) => String(row["subscription"])));
    const faint = Math.min(1, Math.max(0.12, 60 / boxes.length)) * (matched.size ? 0.5 : 1); // many must not be one mass
    const order = (each: Drawn) => 2 * Number(matched.has(each.id) || each.id === selected) + Number(each.forwarded);
    for (const each of [...boxes].sort((a, b) => order(a) - order(b))) {
      const mine = each.id === selected || matched.has(each.id);
      const [x0, x1] = [pen.x(clamp(each.box[0], bounds[0], bounds[2])), pen.x(clamp(each.box[2], bounds[0], bounds[2]))];
      const [y0, y1] = [pen.y(clamp(each.box[1], bounds[1], bounds[3])), pen.y(clamp(each.box[3], bounds[1], bounds[3]))];
      context.strokeStyle = context.fillStyle = pen.colour(mine ? "chosen" : each.forwarded ? "enter" : "covered");
      context.globalAlpha = mine ? (matched.size ? 0.08 : 0.35) : (each.forwarded ? 0.06 : 0.03) * faint;
      context.fillRect(x0, y1, x1 - x0, y0 - y1);
      context.globalAlpha = mine ? 1 : (each.forwarded ? 0.9 : 0.45) * (router ? 1 : faint);
      context.lineWidth = mine ? 2 : each.forwarded ? 1.4 : 0.8;
      context.strokeRect(x0, y1, x1 - x0, y0 - y1);
    }
    const [x, y] = [tried?.event[axes[0]], tried?.event[axes[1]]];
    if (typeof x === "number" && typeof y === "number") {
      context.globalAlpha = 1;
      context.fillStyle = pen.colour("fresh");
      context.strokeStyle = pen.colour("panel");
      context.lineWidth = 2;
      context.beginPath();
      context.arc(pen.x(x), pen.y(y), 7, 0, 2 * Math.PI);
      context.fill();
      context.stroke();
    }
    context.restore();
  };
  const smallest = (x: number, y: number): Drawn | undefined =>
    boxes
      .filter(({ box }) => box[0] <= x && x <= box[2] && box[1] <= y && y <= box[3])
      .sort((a, b) => (a.box[2] - a.box[0]) * (a.box[3] - a.box[1]) - (b.box[2] - b.box[0]) * (b.box[3] - b.box[1]))[0];
  const pick = (x: number, y: number) => {
    const found = smallest(x, y);
    if (found) location.hash = toSubscription(live.name, found.id);
  };
  const forwarded = boxes.filter((each) => each.forwarded).length;
  const choose = (place: 0 | 1) => (
    <select
      aria-label={place ? "Upward attribute" : "Attribute across"}
      value={axes[place]}
      onChange={(event) => setAxes(place ? [axes[0], event.currentTarget.value] : [event.currentTarget.value, axes[1]])}
    >
      {over.map((name) => <option key={name}>{name}</option>)}
    </select>
  );
  return (
    <Plane bounds={bounds} draw={draw} label="Boxes of subscriptions." name={(x, y) => smallest(x, y)?.id ?? null} onPick={pick}>
      <div class="legend">
        {choose(0)} × {choose(1)}
        {router && <span class="key key-enter">{count(forwarded)} forwarded</span>}
        {router && <span class="key key-covered">{count(boxes.length - forwarded)} covered</span>}
        {tried && <span class="key key-fresh">the event</span>}
        {tried && <span class="key key-list">its matches</span>}
      </div>
    </Plane>
  );
}

/** The box around boxes; one wide box is not to squeeze all the others. */
function span(boxes: Box[]): Box {
  const ends = (place: number) => boxes.map((box) => box[place] ?? 0).filter(Number.isFinite).sort((a, b) => a - b);
  const at = (values: number[], share: number, otherwise: number) => values[Math.floor(share * (values.length - 1))] ?? otherwise;
  const [xmin, ymin] = [at(ends(0), 0, 0), at(ends(1), 0, 0)];
  const [xmax, ymax] = [at(ends(2), 0.97, 1), at(ends(3), 0.97, 1)];
  return [xmin, ymin, Math.max(xmax, xmin + 1e-9), Math.max(ymax, ymin + 1e-9)];
}
