/** Dark or light: as the system has it, until somebody chooses otherwise. */

import { signal } from "@preact/signals";

const KEY = "rankcast-theme";
const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";

export const theme = signal("");

function show(name: string): void {
  theme.value = name;
  document.documentElement.dataset["theme"] = name;
}
show(localStorage.getItem(KEY) ?? system);

export function turnTheme(): void {
  show(theme.value === "dark" ? "light" : "dark");
  if (theme.value === system) localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, theme.value);
}
