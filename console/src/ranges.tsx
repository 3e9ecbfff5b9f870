/** Subscription space of ranges: each subscription is a point (lo, hi), an update paints the tiles of those
 * that must hear of it. Dense tiles never look at a subscription; sparse ones reach nobody in vain. */

import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { type Row, listen, streamPath } from "./api.ts";
import { count, shown } from "./format.ts";
import { type Live, overOf, subscriptions } from "./live.ts";
import { type Box, type Pen, Plane, type Reach, drawAxes, nearest } from "./plane.tsx";
import { toSubscription } from "./route.ts";

interface Tile {
  lo: [outer: number, inner: number];
  hi: [inner: number, outer: number];
  removed: boolean;
  item: string;
  at: number;
}

interface Point {
  id: string;
  lo: number;
  hi: number;
}

const FADE = 8000;
const MOST = 1000;

class Space {
  points: Point[] = [];
  tiles: Tile[] = [];
  messages = 0;
  reached = 0;
  last = "";

  constructor(readonly over: string, readonly by: string) {}

  point(row: Row): Point {
    const end = (name: string, otherwise: number) => (row[name] == null ? otherwise : Number(row[name]));
    return { id: String(row["id"]), lo: end(`${this.over}_lo`, -Infinity), hi: end(`${this.over}_hi`, Infinity) };
  }

  paint(rows: Row[]): void {
    const at = Date.now();
    const number = (value: unknown, otherwise: number) => (value == null ? otherwise : Number(value));
    for (const row of rows) {
      const tile: Tile = {
        lo: [number(row[`${this.over}_lo_outer`], -Infinity), number(row[`${this.over}_lo_inner`], Infinity)],
        hi: [number(row[`${this.over}_hi_inner`], -Infinity), number(row[`${this.over}_hi_outer`], Infinity)],
        removed: row[this.by] == null,
        item: String(row["item"]),
        at,
      };
      this.tiles.push(tile);
      this.messages += 1;
      this.reached += this.points.filter((each) => inside(tile, each)).length;
      this.last = tile.item;
    }
    this.tiles = this.tiles.filter((each) => at - each.at < FADE).slice(-400);
  }

  bounds(): Box {
    const ends = this.points.flatMap((each) => [each.lo, each.hi]).filter(Number.isFinite);
    for (const tile of this.tiles) ends.push(...[...tile.lo, ...tile.hi].filter(Number.isFinite));
    const [low, high] = [Math.min(...ends), Math.max(...ends)];
    if (!ends.length || low === high) return [0, 0, 1, 1];
    const margin = (high - low) * 0.06;
    return [low - margin, low - margin, high + margin, high + margin];
  }
}

const inside = (tile: Tile, point: Point) =>
  tile.lo[0] < point.lo && point.lo <= tile.lo[1] && tile.hi[0] <= point.hi && point.hi < tile.hi[1];

export function RangesView(props: { live: Live; selected: string | null; onDraw(row: Record<string, string>): void }): JSX.Element {
  return (
    <div class="pair">
      <SpaceView {...props} method="dense" />
      <SpaceView {...props} method="sparse" />
    </div>
  );
}

function SpaceView({ live, selected, onDraw, method }: { live: Live; selected: string | null; onDraw(row: Record<string, string>): void; method: string }): JSX.Element {
  const settings = live.stream.value?.configuration ?? {};
  const [over = "x", ...others] = overOf(live);
  const by = String(settings["by"] ?? "y");
  const flat = !others.length;
  const space = useMemo(() => new Space(over, by), [live, over, by]);
  const [told, setTold] = useState("");
  const [trouble, setTrouble] = useState("");

  useEffect(() => {
    const refresh = () =>
      void subscriptions(live.name, MOST).then((rows) => (space.points = rows.map((row) => space.point(row)))).catch(() => undefined);
    refresh();
    const timer = setInterval(refresh, 5000);
    const stop = listen(
      `${streamPath(live.name)}/tiles?method=${method}`,
      (event, data) => {
        if (event === "tiles") {
          space.paint((data["rows"] as Row[]) ?? []);
          setTold(`${count(space.messages)} messages for ${count(space.reached)} receipts; last about ${shown(space.last)}`);
        }
      },
      (error) => setTrouble(error instanceof Error ? error.message : String(error)),
    );
    return () => {
      clearInterval(timer);
      stop();
    };
  }, [space]);

  const draw = (pen: Pen) => {
    const bounds = space.bounds();
    drawAxes(pen, `${over}_lo`, `${over}_hi`);
    const now = Date.now();
    const { context } = pen;
    const clamp = (value: number, low: number, high: number) => Math.min(Math.max(value, low), high);
    const x = (value: number) => clamp(pen.x(clamp(value, bounds[0], bounds[2])), -1e4, 1e4);
    const y = (value: number) => clamp(pen.y(clamp(value, bounds[1], bounds[3])), -1e4, 1e4);
    context.save();
    context.strokeStyle = pen.colour("muted");
    context.setLineDash([4, 4]);
    context.beginPath();
    context.moveTo(pen.x(bounds[0]), pen.y(bounds[0]));
    context.lineTo(pen.x(bounds[2]), pen.y(bounds[2]));
    context.stroke();
    context.setLineDash([]);
    for (const tile of space.tiles) {
      const young = 1 - (now - tile.at) / FADE;
      if (young <= 0) continue;
      context.fillStyle = context.strokeStyle = pen.colour(tile.removed ? "leave" : "enter");
      const [left, right, bottom, top] = [x(tile.lo[0]), x(tile.lo[1]), y(tile.hi[0]), y(tile.hi[1])];
      context.globalAlpha = 0.3 * young;
      context.fillRect(left, top, right - left, bottom - top);
      context.globalAlpha = young;
      context.strokeRect(left, top, right - left, bottom - top);
    }
    for (const each of space.points) {
      const hears = space.tiles.some((tile) => now - tile.at < 1200 && inside(tile, each));
      const mine = each.id === selected;
      context.globalAlpha = selected === null || mine || hears ? 1 : 0.45;
      context.fillStyle = pen.colour(mine ? "chosen" : hears ? "fresh" : "people");
      context.beginPath();
      context.arc(x(each.lo), y(each.hi), mine ? 7 : hears ? 5 : 3, 0, 2 * Math.PI);
      context.fill();
    }
    context.restore();
  };

  // A range without an end is seen at the edge.
  const at = (each: Point) => {
    const [xmin, ymin, xmax, ymax] = space.bounds();
    return [Math.min(Math.max(each.lo, xmin), xmax), Math.min(Math.max(each.hi, ymin), ymax)] as const;
  };
  const name = (lo: number, hi: number, reach: Reach): string | null => {
    const found = nearest(space.points, at, lo, hi, reach);
    return found && `${shown(found.id)}: ${Number.isFinite(found.lo) ? shown(found.lo) : "−∞"} to ${Number.isFinite(found.hi) ? shown(found.hi) : "∞"}`;
  };
  const pick = (lo: number, hi: number, reach: Reach) => {
    const found = nearest(space.points, at, lo, hi, reach);
    if (found) location.hash = toSubscription(live.name, found.id);
    else if (lo <= hi) onDraw({ [`${over}_lo`]: lo.toPrecision(4), [`${over}_hi`]: hi.toPrecision(4) });
  };

  return (
    <figure class="space" data-testid={`space-${method}`}>
      <figcaption>
        <b>{method === "dense" ? "Dense" : "Sparse"} tiles</b> <span class="muted">{method === "dense" ? "never look at a subscription" : "reach nobody in vain"}</span>
      </figcaption>
      <Plane bounds={space.bounds()} draw={draw} label={`Subscription space, ${method} tiles.`} name={name} onPick={pick} />
      <p class="small muted" role="status">
        {!flat && method === "dense" ? "Tiles of several attributes are shown over the first one." : trouble || told || "waiting for the next event …"}
      </p>
    </figure>
  );
}
