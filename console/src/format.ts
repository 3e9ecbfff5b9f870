/** Numbers and values as people read them. */

const PLAIN = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export function count(value: number): string {
  return PLAIN.format(value);
}

export function rate(value: number): string {
  return value >= 100 ? PLAIN.format(value) : value.toFixed(1);
}

export function milliseconds(seconds: number | null): string {
  if (seconds === null) return "–";
  const ms = seconds * 1000;
  return `${ms < 10 ? ms.toFixed(1) : PLAIN.format(ms)} ms`;
}

export function bytes(value: number): string {
  const units = ["B", "kB", "MB", "GB"];
  let unit = 0;
  for (; value >= 1000 && unit < units.length - 1; unit++) value /= 1000;
  return `${value >= 100 || unit === 0 ? value.toFixed(0) : value.toFixed(1)} ${units[unit]}`;
}

/** A value of a row; long ones are cut. */
export function shown(value: unknown): string {
  if (value === null || value === undefined) return "–";
  if (typeof value === "number") return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(5)));
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length > 80 ? `${text.slice(0, 77)}…` : text;
}

export const ENGINES: Record<string, string> = {
  RangeTopK: "the best objects in a range",
  CoveringTable: "which subscriptions a router must forward",
  RankedMatcher: "the best subscriptions for an event",
  GeoTextTopK: "the best recent messages near a place about some words",
  MovingTopK: "the best objects from where a query is, as it moves",
  MovingSkyline: "every object worth looking at from where a query is",
  external: "lists that something else computes",
};
