/**
 * Is a position still inside its safe zone? For clients that hold zones of `GET .../zones` (GeoJSON).
 *
 * While a position is strictly inside, the list of its query is the same (of circles: among the members),
 * and nothing need be asked. Whatever is not known for certain counts as outside: asking is always right.
 * One file, no dependency.
 */

export type Position = readonly [x: number, y: number];

export interface Zone {
  type: "Feature";
  id?: string | number;
  geometry:
    | { type: "Point"; coordinates: number[] }
    | { type: "Polygon"; coordinates: number[][][] }
    | { type: "MultiPolygon"; coordinates: number[][][][] }
    | null;
  properties: { [name: string]: unknown; radius?: number | null } | null;
}

export type Metric = "euclidean" | "manhattan" | "haversine";

const EARTH = 6_371_008.8; // metres, as the engines count

/** The distance of two places: in their own unit, or in metres on the globe. */
export function distance(a: Position, b: Position, metric: Metric = "euclidean"): number {
  const dx = a[0] - b[0];
  const dy = a[1] - b[1];
  if (metric === "manhattan") return Math.abs(dx) + Math.abs(dy);
  if (metric === "euclidean") return Math.hypot(dx, dy);
  const radians = Math.PI / 180;
  const half = Math.sin((dy * radians) / 2) ** 2;
  const other = Math.cos(a[1] * radians) * Math.cos(b[1] * radians) * Math.sin((dx * radians) / 2) ** 2;
  return 2 * EARTH * Math.asin(Math.min(1, Math.sqrt(half + other)));
}

/** 1 inside a ring, -1 outside, 0 on its edge; by counting crossings. */
function side(position: Position, ring: number[][]): number {
  const [x, y] = position;
  let found = -1;
  for (let i = 0, j = ring.length - 1; i < ring.length; j = i++) {
    const [ax = NaN, ay = NaN] = ring[i] ?? [];
    const [bx = NaN, by = NaN] = ring[j] ?? [];
    const cross = (bx - ax) * (y - ay) - (by - ay) * (x - ax);
    const reach = Math.abs(bx - ax) + Math.abs(by - ay) + Math.abs(x - ax) + Math.abs(y - ay);
    const between =
      Math.min(ax, bx) <= x && x <= Math.max(ax, bx) && Math.min(ay, by) <= y && y <= Math.max(ay, by);
    if (between && Math.abs(cross) <= 1e-12 * reach * reach) return 0;
    if (ay > y !== by > y && x < ((bx - ax) * (y - ay)) / (by - ay) + ax) found = -found;
  }
  return found;
}

function inPolygon(position: Position, rings: number[][][]): boolean {
  const [outer, ...holes] = rings;
  return outer !== undefined && side(position, outer) > 0 && holes.every((hole) => side(position, hole) < 0);
}

/** Whether a position is strictly inside a zone. */
export function isInside(zone: Zone | null | undefined, position: Position, metric: Metric = "euclidean"): boolean {
  const geometry = zone?.geometry;
  if (!geometry || !position.every(Number.isFinite)) return false;
  if (geometry.type === "Polygon") return inPolygon(position, geometry.coordinates);
  if (geometry.type === "MultiPolygon") {
    return geometry.coordinates.some((rings) => inPolygon(position, rings));
  }
  const radius = zone.properties?.radius;
  if (radius === null) return true; // a circle without end
  const [x = NaN, y = NaN] = geometry.coordinates;
  // A billionth less than the radius: the engine rounds otherwise.
  return typeof radius === "number" && distance(position, [x, y], metric) < radius * (1 - 1e-9);
}

/** Follows one moving query: tells for each position whether the server must be asked, and counts. */
export class Follower {
  zone: Zone | null = null;
  asked = 0;
  saved = 0;

  constructor(readonly metric: Metric = "euclidean") {}

  /** Whether a position must be sent; `zone` is then set to the zone of the answer. */
  mustAsk(position: Position): boolean {
    const inside = isInside(this.zone, position, this.metric);
    if (inside) this.saved += 1;
    else this.asked += 1;
    return !inside;
  }
}
