/** Numbers and values as people read them. */

const PLAIN = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export function count(value: number): string {
  return PLAIN.format(value);
}

export function rate(value: number): string {
  return value >= 100 ? PLAIN.format(value) : value < 0.05 ? "0" : value.toFixed(1);
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

/** Scores of one list, all with as many digits behind the point, so that they can be compared by eye. */
export function scores(values: (number | null)[]): string[] {
  const known = values.filter((each): each is number => each !== null && Number.isFinite(each));
  const digits = Math.max(0, ...known.map((each) => (String(Number(each.toPrecision(4))).split(".")[1] ?? "").length));
  return values.map((each) => (each === null || !Number.isFinite(each) ? shown(each) : each.toFixed(Math.min(digits, 4))));
}

const brief = (value: unknown) => (typeof value === "number" && Math.abs(value) < 1e4 ? String(Number(value.toPrecision(4))) : shown(value));

/** The columns of a row in words; a lower and an upper end are one range. */
export function details(row: Record<string, unknown>): string {
  const found: string[] = [];
  for (const [name, value] of Object.entries(row)) {
    const base = name.replace(/_(lo|hi)$/, "");
    const [lo, hi] = [row[`${base}_lo`], row[`${base}_hi`]];
    if (name === "id" || value === null || (name.endsWith("_hi") && lo != null)) continue;
    if (base === name) found.push(`${name} ${Array.isArray(value) ? value.map(brief).join(" ") : brief(value)}`);
    else if (lo != null && hi != null) found.push(`${base} ${brief(lo)} to ${brief(hi)}`);
    else found.push(lo != null ? `${base} from ${brief(lo)}` : `${base} up to ${brief(hi)}`);
  }
  return found.join(" · ");
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
