/** Where the reader is: `#/` all streams, `#/s/<stream>` one, `#/s/<stream>/<subscription>` one list. */

import { signal } from "@preact/signals";

export interface Route {
  stream: string | null;
  subscription: string | null;
}

function parse(): Route {
  const parts = location.hash.replace(/^#\/?/, "").split("/");
  const text = (at: number) => {
    try {
      return parts[at] ? decodeURIComponent(parts[at] ?? "") : null;
    } catch {
      return null;
    }
  };
  return parts[0] === "s" ? { stream: text(1), subscription: text(2) } : { stream: null, subscription: null };
}

export const route = signal<Route>(parse());
addEventListener("hashchange", () => (route.value = parse()));

export const home = "#/";
export const toStream = (stream: string): string => `#/s/${encodeURIComponent(stream)}`;
export const toSubscription = (stream: string, id: string | number): string =>
  `${toStream(stream)}/${encodeURIComponent(String(id))}`;
