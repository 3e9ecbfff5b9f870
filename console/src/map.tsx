/** Places: messages, objects, subscriptions and their tracks, safe zones; a moving query can be dragged. */

import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Id, type Row, call, streamPath } from "./api.ts";
import { count, shown } from "./format.ts";
import { type Item, type Live, type Write, atMost, concerns, subscriptions } from "./live.ts";
import { type Box, type Pen, Plane, type Reach, apart, around, drawAxes, nearest } from "./plane.tsx";
import { Follower, type Metric, type Zone } from "./zone.ts";
import { toSubscription } from "./route.ts";

interface Place {
  id: Id;
  x: number;
  y: number;
  label: string;
  at: number; // when it was written, for fading
}

const MOST = 1000; // subscriptions
const TRACK = 40; // positions
const FRESH = 4000; // milliseconds for which something new shines

class World {
  readonly items = new Map<string, Place>();
  readonly people = new Map<string, Place>();
  readonly tracks = new Map<string, [number, number][]>();

  put(rows: Row[], into: Map<string, Place>, at: number): void {
    for (const row of rows) {
      const [x, y] = [Number(row["x"]), Number(row["y"])];
      if (row["x"] == null || row["y"] == null || !Number.isFinite(x) || !Number.isFinite(y)) continue;
      const text = row["text"] ?? row["terms"];
      const label = Array.isArray(text) ? text.join(" ") : typeof text === "string" ? text : String(row["id"]);
      into.set(String(row["id"]), { id: row["id"] as Id, x, y, label, at });
    }
  }

  write(write: Write, moving: boolean): void {
    const at = write.at * 1000;
    if (write.call === "subscribe" || write.call === "amend") this.put(write.rows, this.people, at);
    else if (write.call === "unsubscribe") for (const row of write.rows) this.people.delete(String(row["id"]));
    else if (write.call === "remove" || write.call === "retract") for (const row of write.rows) this.items.delete(String(row["id"]));
    else if (write.call === "upsert" || !moving) this.put(write.rows, this.items, at);
    else if (write.call === "publish") {
      this.put(write.rows, this.people, at);
      for (const row of write.rows) {
        const track = this.tracks.get(String(row["id"])) ?? [];
        track.push([Number(row["x"]), Number(row["y"])]);
        if (track.length > TRACK) track.shift();
        this.tracks.set(String(row["id"]), track);
      }
    }
  }

  bounds(otherwise: Box): Box {
    const places = [...this.items.values(), ...this.people.values()].map((each) => [each.x, each.y] as const);
    return around(places, otherwise);
  }
}

export function PlacesView({ live, selected, onPick }: { live: Live; selected: string | null; onPick(x: number, y: number): void }): JSX.Element {
  const stream = live.stream.value;
  const moving = stream?.inputs?.["upsert"] !== undefined;
  const metric = (stream?.configuration?.["metric"] ?? "euclidean") as Metric;
  const globe = metric === "haversine";
  const world = useMemo(() => new World(), [live]);
  const zones = useRef<Zone[]>([]);
  const land = useRef<Path2D | null>(null);
  const follower = useMemo(() => new Follower(metric), [live, selected, metric]);
  const [counts, setCounts] = useState({ asked: 0, saved: 0 });

  useEffect(() => {
    void subscriptions(live.name, MOST).then((rows) => world.put(rows, world.people, 0)).catch(() => undefined);
    if (moving) {
      void call<{ rows: Row[] }>("GET", `${streamPath(live.name)}/objects?limit=5000`)
        .then((found) => world.put(found.rows, world.items, 0))
        .catch(() => undefined);
    }
    return live.onWrite((write) => world.write(write, moving));
  }, [live, moving]);

  useEffect(() => {
    if (globe) void fetch("/console/land.json").then((found) => found.json()).then((rings: number[][]) => (land.current = outline(rings)));
  }, [globe]);

  // Zones of the one that is looked at; they jump when it leaves them.
  const ask = async () => {
    if (!moving || selected === null) return;
    const path = `${streamPath(live.name)}/zones?subscription=${encodeURIComponent(selected)}`;
    const found = await call<{ features: Zone[] }>("GET", path).catch(() => ({ features: [] }));
    zones.current = found.features;
    follower.zone = found.features[0] ?? null;
  };
  useEffect(() => {
    zones.current = [];
    setCounts({ asked: 0, saved: 0 });
    if (!moving || selected === null) return;
    const soon = atMost(400, () => void ask());
    soon.call();
    const forget = live.onWrite((write) => concerns(write, selected) && soon.call());
    return () => {
      forget();
      soon.stop();
    };
  }, [live, selected, moving]);

  const grab = (x: number, y: number, reach: Reach): boolean => {
    const held = selected === null ? undefined : world.people.get(selected);
    return moving && held !== undefined && apart(held.x - x, held.y - y, reach) < 1;
  };
  const busy = useRef(false);
  const drag = (x: number, y: number) => {
    const held = selected === null ? undefined : world.people.get(selected);
    if (!held) return;
    [held.x, held.y] = [x, y];
    held.at = Date.now();
    if (busy.current) return;
    if (follower.mustAsk([x, y])) {
      busy.current = true;
      void call("POST", `${streamPath(live.name)}/events`, { id: held.id, x, y })
        .then(ask)
        .catch(() => undefined)
        .finally(() => (busy.current = false));
    }
    setCounts({ asked: follower.asked, saved: follower.saved });
  };

  const nudge = (dx: number, dy: number) => {
    const held = selected === null ? undefined : world.people.get(selected);
    if (held) drag(held.x + dx, held.y + dy);
  };

  const at = (each: Place) => [each.x, each.y] as const;
  const pick = (x: number, y: number, reach: Reach) => {
    const found = nearest(world.people.values(), at, x, y, reach);
    if (found) location.hash = toSubscription(live.name, found.id);
    else onPick(x, y);
  };
  const name = (x: number, y: number, reach: Reach): string | null => {
    const person = nearest(world.people.values(), at, x, y, reach);
    if (person) return person.label === String(person.id) ? shown(person.id) : `${shown(person.id)}: ${shown(person.label)}`;
    const item = nearest(world.items.values(), at, x, y, reach);
    return item && shown(item.id);
  };

  const bounds = (): Box => {
    const given = stream?.configuration?.["bounds"];
    const box = Array.isArray(given) && given.length === 4 ? (given as unknown as Box) : null;
    return world.items.size + world.people.size ? world.bounds(box ?? [0, 0, 1, 1]) : box ?? (globe ? [-180, -60, 180, 75] : [0, 0, 1, 1]);
  };

  const draw = (pen: Pen) => {
    if (globe && land.current) drawLand(pen, land.current);
    drawAxes(pen, globe ? "longitude" : "x", globe ? "latitude" : "y");
    for (const zone of zones.current) drawZone(pen, zone, metric);
    if (moving) drawTracks(pen, world, selected);
    drawItems(pen, world, selected !== null);
    const held = selected === null ? undefined : world.people.get(selected);
    if (held) drawList(pen, world, held, live.list.value);
    drawPeople(pen, world, selected, moving);
  };

  return (
    <Plane bounds={bounds()} draw={draw} square label={`Map of ${live.name}.`} name={name} onPick={pick} onGrab={grab} onDrag={drag} {...(moving && selected !== null ? { onNudge: nudge } : {})}>
      <div class="legend">
        <span class="key key-items">{moving ? "objects" : "messages"}</span>
        <span class="key key-people">{moving ? "moving queries" : "subscriptions"}</span>
        {selected !== null && <span class="key key-list">its list</span>}
        {moving && selected !== null && <span class="key key-zone">safe zone</span>}
      </div>
      {moving && selected !== null && (
        <div class="counter" role="status" data-testid="counter">
          {counts.asked + counts.saved === 0 ? (
            <>Drag <b>{shown(selected)}</b> (or Shift and arrow keys): nothing is asked until it leaves its zone.</>
          ) : (
            <>
              <b>{count(counts.saved)}</b> positions inside the zone, nothing asked; <b data-testid="asked">{count(counts.asked)}</b> asked
            </>
          )}
        </div>
      )}
    </Plane>
  );
}

/** Rings of hundredths of degrees, each point as the difference from the one before. */
function outline(rings: number[][]): Path2D {
  const path = new Path2D();
  for (const ring of rings) {
    let [x, y] = [0, 0];
    for (let at = 0; at < ring.length; at += 2) {
      x += ring[at] ?? 0;
      y += ring[at + 1] ?? 0;
      if (at === 0) path.moveTo(x / 100, y / 100);
      else path.lineTo(x / 100, y / 100);
    }
    path.closePath();
  }
  return path;
}

function drawLand(pen: Pen, land: Path2D): void {
  const { context } = pen;
  const ratio = devicePixelRatio || 1;
  const [x0, y0, s] = [pen.x(0), pen.y(0), pen.length(1)];
  context.save();
  context.setTransform(ratio * s, 0, 0, -ratio * s, ratio * x0, ratio * y0);
  context.fillStyle = pen.colour("land");
  context.strokeStyle = pen.colour("coast");
  context.lineWidth = 1 / s;
  context.fill(land, "evenodd");
  context.stroke(land);
  context.restore();
}

function drawZone(pen: Pen, zone: Zone, metric: Metric): void {
  const { context } = pen;
  const shape = zone.geometry;
  if (!shape) return;
  context.save();
  context.beginPath();
  if (shape.type === "Point") {
    const radius = zone.properties?.radius;
    const [x = 0, y = 0] = shape.coordinates;
    if (radius === null || radius === undefined) context.rect(0, 0, pen.width, pen.height);
    else if (metric === "manhattan") {
      const r = Math.min(pen.length(radius), 1e5);
      context.moveTo(pen.x(x) - r, pen.y(y));
      context.lineTo(pen.x(x), pen.y(y) - r);
      context.lineTo(pen.x(x) + r, pen.y(y));
      context.lineTo(pen.x(x), pen.y(y) + r);
      context.closePath();
    } else {
      const degrees = metric === "haversine" ? radius / 111_195 : radius;
      const across = metric === "haversine" ? degrees / Math.max(0.01, Math.cos((y * Math.PI) / 180)) : degrees;
      context.ellipse(pen.x(x), pen.y(y), Math.min(pen.length(across), 1e5), Math.min(pen.length(degrees), 1e5), 0, 0, 2 * Math.PI);
    }
  } else {
    const polygons = shape.type === "Polygon" ? [shape.coordinates] : shape.coordinates;
    for (const rings of polygons)
      for (const ring of rings) {
        ring.forEach(([x = 0, y = 0], place) => (place ? context.lineTo(pen.x(x), pen.y(y)) : context.moveTo(pen.x(x), pen.y(y))));
        context.closePath();
      }
  }
  context.fillStyle = pen.colour("zone-fill");
  context.strokeStyle = pen.colour("zone");
  context.lineWidth = 1.5;
  context.fill("evenodd");
  context.stroke();
  context.restore();
}

function drawTracks(pen: Pen, world: World, selected: string | null): void {
  const { context } = pen;
  context.save();
  context.lineWidth = 1.5;
  for (const [id, track] of world.tracks) {
    context.strokeStyle = pen.colour("track");
    context.globalAlpha = selected === null || selected === id ? 0.8 : 0.25;
    context.beginPath();
    track.forEach(([x, y], place) => (place ? context.lineTo(pen.x(x), pen.y(y)) : context.moveTo(pen.x(x), pen.y(y))));
    context.stroke();
  }
  context.restore();
}

/** Lines from a query to what its list has, best first. */
function drawList(pen: Pen, world: World, from: Place, list: Item[]): void {
  const { context } = pen;
  context.save();
  context.font = "600 11px system-ui, sans-serif";
  context.textAlign = "center";
  context.textBaseline = "middle";
  const there = list.slice(0, 30).flatMap((each) => {
    const place = world.items.get(String(each.item));
    return place ? [{ rank: each.rank, x: pen.x(place.x), y: pen.y(place.y) }] : [];
  });
  context.strokeStyle = pen.colour("chosen");
  context.globalAlpha = 0.45;
  context.lineWidth = 1.5;
  for (const { x, y } of there) {
    context.beginPath();
    context.moveTo(pen.x(from.x), pen.y(from.y));
    context.lineTo(x, y);
    context.stroke();
  }
  context.globalAlpha = 1;
  for (const { rank, x, y } of there.reverse()) {
    context.fillStyle = pen.colour("panel");
    context.beginPath();
    context.arc(x, y, 9, 0, 2 * Math.PI);
    context.fill();
    context.stroke();
    context.fillStyle = pen.colour("text");
    context.fillText(String(rank), x, y + 0.5);
  }
  context.restore();
}

function drawItems(pen: Pen, world: World, faint: boolean): void {
  const { context } = pen;
  const now = Date.now();
  context.save();
  for (const each of world.items.values()) {
    const young = Math.max(0, 1 - (now - each.at) / FRESH);
    const [x, y] = [pen.x(each.x), pen.y(each.y)];
    if (young > 0) {
      context.globalAlpha = young * 0.5;
      context.fillStyle = pen.colour("fresh");
      context.beginPath();
      context.arc(x, y, 4 + 10 * (1 - young), 0, 2 * Math.PI);
      context.fill();
    }
    context.globalAlpha = faint ? 0.55 : 0.9;
    context.fillStyle = pen.colour("items");
    context.fillRect(x - 2.5, y - 2.5, 5, 5);
  }
  context.restore();
}

function drawPeople(pen: Pen, world: World, selected: string | null, moving: boolean): void {
  const { context } = pen;
  context.save();
  context.font = "12px system-ui, sans-serif";
  for (const [id, each] of world.people) {
    const mine = id === selected;
    const [x, y] = [pen.x(each.x), pen.y(each.y)];
    context.globalAlpha = selected === null || mine ? 1 : 0.35;
    context.fillStyle = pen.colour(mine ? "chosen" : "people");
    context.beginPath();
    context.arc(x, y, mine ? 8 : moving ? 4.5 : 4, 0, 2 * Math.PI);
    context.fill();
    if (mine) {
      context.strokeStyle = pen.colour("panel");
      context.lineWidth = 2;
      context.stroke();
      context.fillStyle = pen.colour("text");
      context.fillText(shown(id), x + 12, y + 4);
    }
  }
  context.restore();
}
