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
    geometry: {
        type: "Point";
        coordinates: number[];
    } | {
        type: "Polygon";
        coordinates: number[][][];
    } | {
        type: "MultiPolygon";
        coordinates: number[][][][];
    } | null;
    properties: {
        [name: string]: unknown;
        radius?: number | null;
    } | null;
}
export type Metric = "euclidean" | "manhattan" | "haversine";
/** The distance of two places: in their own unit, or in metres on the globe. */
export declare function distance(a: Position, b: Position, metric?: Metric): number;
/** Whether a position is strictly inside a zone. */
export declare function isInside(zone: Zone | null | undefined, position: Position, metric?: Metric): boolean;
/** Follows one moving query: tells for each position whether the server must be asked, and counts. */
export declare class Follower {
    readonly metric: Metric;
    zone: Zone | null;
    asked: number;
    saved: number;
    constructor(metric?: Metric);
    /** Whether a position must be sent; `zone` is then set to the zone of the answer. */
    mustAsk(position: Position): boolean;
}
