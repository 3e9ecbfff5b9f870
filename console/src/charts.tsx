/** Small charts over the last minutes. */

import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import type { Sample } from "./live.ts";
import { theme } from "./theme.ts";

const SPAN = 60; // seconds that are seen

/** Seconds before now. */
const ago = (seconds: number) => (seconds === 0 ? "now" : `${seconds} s`);

interface Props {
  samples: Sample[];
  title: string;
  lines: { label: string; colour: string; value(sample: Sample): number | null }[];
  unit: string;
}

export function Chart({ samples, title, lines, unit }: Props): JSX.Element {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  useEffect(() => {
    const element = place.current;
    if (!element) return;
    const style = getComputedStyle(element);
    const colour = (name: string) => style.getPropertyValue(`--${name}`).trim();
    const axis = { stroke: colour("muted"), grid: { stroke: colour("grid"), width: 1 }, ticks: { show: false } };
    plot.current = new uPlot(
      {
        width: element.clientWidth || 300,
        height: 130,
        padding: [8, 18, 0, 0],
        cursor: { show: false },
        legend: { show: false },
        scales: { x: { time: false, range: [-SPAN, 0] }, y: { range: (_, __, high) => [0, Math.max(high * 1.15, 1)] } },
        axes: [
          { ...axis, size: 24, font: "11px system-ui", splits: () => [-60, -45, -30, -15, 0], values: (_, found) => found.map(ago) },
          { ...axis, size: 46, space: 34, font: "11px system-ui", values: (_, found) => found.map((each) => `${Number(each.toPrecision(3))}`) },
        ],
        series: [{}, ...lines.map((line) => ({ label: line.label, stroke: colour(line.colour), width: 1.6, points: { show: false } }))],
      },
      [[], ...lines.map(() => [])],
      element,
    );
    const watch = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height: 130 }));
    watch.observe(element);
    return () => {
      watch.disconnect();
      plot.current?.destroy();
    };
  }, [theme.value]);
  useEffect(() => {
    const now = samples.at(-1)?.time ?? 0;
    const seen = samples.filter((each) => now - each.time <= SPAN);
    plot.current?.setData([
      seen.map((each) => each.time - now),
      ...lines.map((line) => seen.map((each) => line.value(each))),
    ]);
  }, [samples, theme.value]);
  return (
    <figure class="chart">
      <figcaption>
        {title} <span class="muted">{unit}</span>
        {lines.length > 1 && lines.map((line) => <span key={line.label} class={`key key-${line.colour}`}>{line.label}</span>)}
      </figcaption>
      <div ref={place} />
    </figure>
  );
}
