/** A plane to look at: a canvas that can be moved and zoomed, by pointer and by keyboard. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

export type Box = readonly [xmin: number, ymin: number, xmax: number, ymax: number];

/** What a drawing is given: the canvas, and places turned into pixels and back. */
export interface Pen {
  context: CanvasRenderingContext2D;
  width: number;
  height: number;
  x(value: number): number;
  y(value: number): number;
  /** Pixels of a length at a place. */
  length(value: number): number;
  colour(name: string): string;
  view: Box;
}

/** How far a pointer reaches, in places: across and upward. */
export type Reach = readonly [number, number];

/** How far two places are from each other, in reaches: below 1 they touch. */
export const apart = (dx: number, dy: number, reach: Reach): number => Math.hypot(dx / reach[0], dy / reach[1]);

interface Props {
  /** What must be seen at first. */
  bounds: Box;
  draw(pen: Pen): void;
  label: string;
  /** Keep the same scale in both directions. */
  square?: boolean;
  /** A click, in places of the plane; `reach` is how far a finger reaches. */
  onPick?(x: number, y: number, reach: Reach): void;
  /** Dragging begins here: true to drag a thing instead of the plane. */
  onGrab?(x: number, y: number, reach: Reach): boolean;
  onDrag?(x: number, y: number): void;
  /** Arrow keys with Shift: move a thing by so much. */
  onNudge?(dx: number, dy: number): void;
  /** What is to be read of the thing below the pointer. */
  name?(x: number, y: number, reach: Reach): string | null;
  children?: ComponentChildren;
}

class View {
  centre: [number, number] = [0, 0];
  scale: [number, number] = [1, 1];
  size: [number, number] = [1, 1];
  touched = false;

  fit(bounds: Box, square: boolean): void {
    const [width, height] = this.size;
    const [xmin, ymin, xmax, ymax] = bounds;
    const sx = width / ((xmax - xmin || 1) * 1.08);
    const sy = height / ((ymax - ymin || 1) * 1.08);
    this.centre = [(xmin + xmax) / 2, (ymin + ymax) / 2];
    this.scale = square ? [Math.min(sx, sy), Math.min(sx, sy)] : [sx, sy];
  }

  x = (value: number): number => this.size[0] / 2 + (value - this.centre[0]) * this.scale[0];
  y = (value: number): number => this.size[1] / 2 - (value - this.centre[1]) * this.scale[1];
  place(px: number, py: number): [number, number] {
    return [
      this.centre[0] + (px - this.size[0] / 2) / this.scale[0],
      this.centre[1] - (py - this.size[1] / 2) / this.scale[1],
    ];
  }

  zoom(factor: number, px: number, py: number): void {
    const [x, y] = this.place(px, py);
    this.scale = [this.scale[0] * factor, this.scale[1] * factor];
    const [nx, ny] = this.place(px, py);
    this.centre = [this.centre[0] + x - nx, this.centre[1] + y - ny];
    this.touched = true;
  }

  reach(pixels: number): Reach {
    return [pixels / this.scale[0], pixels / this.scale[1]];
  }

  move(dx: number, dy: number): void {
    this.centre = [this.centre[0] - dx / this.scale[0], this.centre[1] + dy / this.scale[1]];
    this.touched = true;
  }
}

export function Plane(props: Props): JSX.Element {
  const canvas = useRef<HTMLCanvasElement>(null);
  const view = useRef(new View()).current;
  const latest = useRef(props);
  latest.current = props;

  useEffect(() => {
    const element = canvas.current;
    const context = element?.getContext("2d");
    if (!element || !context) return;
    let frame = 0;
    const paint = () => {
      frame = requestAnimationFrame(paint);
      const box = element.getBoundingClientRect();
      const ratio = devicePixelRatio || 1;
      const [width, height] = [Math.max(1, box.width), Math.max(1, box.height)];
      if (element.width !== Math.round(width * ratio) || element.height !== Math.round(height * ratio)) {
        element.width = Math.round(width * ratio);
        element.height = Math.round(height * ratio);
      }
      view.size = [width, height];
      const { bounds, square, draw } = latest.current;
      if (!view.touched) view.fit(bounds, square ?? false);
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      context.clearRect(0, 0, width, height);
      const style = getComputedStyle(element);
      const [xmin, ymax] = view.place(0, 0);
      const [xmax, ymin] = view.place(width, height);
      draw({
        context,
        width,
        height,
        x: view.x,
        y: view.y,
        length: (value) => value * view.scale[0],
        colour: (name) => style.getPropertyValue(`--${name}`).trim() || "#888",
        view: [xmin, ymin, xmax, ymax],
      });
    };
    paint();
    return () => cancelAnimationFrame(frame);
  }, [view]);

  const [tip, setTip] = useState<{ text: string; x: number; y: number } | null>(null);
  const grabbed = useRef<{ x: number; y: number; thing: boolean; far: boolean } | null>(null);
  const at = (event: PointerEvent): [number, number] => {
    const box = canvas.current?.getBoundingClientRect();
    return [event.clientX - (box?.left ?? 0), event.clientY - (box?.top ?? 0)];
  };

  const fingers = useRef(new Map<number, [number, number]>()).current;
  const down = (event: PointerEvent) => {
    const [px, py] = at(event);
    canvas.current?.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, [px, py]);
    setTip(null);
    if (fingers.size > 1) return void (grabbed.current = null); // two fingers zoom
    const thing = latest.current.onGrab?.(...view.place(px, py), view.reach(14)) ?? false;
    grabbed.current = { x: px, y: py, thing, far: false };
  };
  const pinch = (event: PointerEvent, to: [number, number]) => {
    const other = [...fingers].find(([finger]) => finger !== event.pointerId)?.[1];
    const from = fingers.get(event.pointerId);
    if (!other || !from) return;
    const wide = (point: [number, number]) => Math.max(8, Math.hypot(point[0] - other[0], point[1] - other[1]));
    view.zoom(wide(to) / wide(from), (to[0] + other[0]) / 2, (to[1] + other[1]) / 2);
    fingers.set(event.pointerId, to);
  };
  const move = (event: PointerEvent) => {
    const held = grabbed.current;
    const [px, py] = at(event);
    if (fingers.size > 1) return pinch(event, [px, py]);
    if (!held) {
      const text = fingers.size ? null : latest.current.name?.(...view.place(px, py), view.reach(8)) ?? null;
      return setTip(text === null ? null : { text, x: px, y: py });
    }
    if (Math.hypot(px - held.x, py - held.y) < 3 && !held.far) return;
    held.far = true;
    if (held.thing) latest.current.onDrag?.(...view.place(px, py));
    else {
      view.move(px - held.x, py - held.y);
      [held.x, held.y] = [px, py];
    }
  };
  const up = (event: PointerEvent) => {
    const held = grabbed.current;
    letGo(event);
    if (held && !held.far) latest.current.onPick?.(...view.place(...at(event)), view.reach(10));
  };
  const letGo = (event: PointerEvent) => {
    fingers.delete(event.pointerId);
    grabbed.current = null;
  };
  const wheel = (event: WheelEvent) => {
    event.preventDefault();
    const box = canvas.current?.getBoundingClientRect();
    view.zoom(Math.exp(-event.deltaY / 400), event.clientX - (box?.left ?? 0), event.clientY - (box?.top ?? 0));
  };
  useEffect(() => {
    const element = canvas.current;
    element?.addEventListener("wheel", wheel, { passive: false });
    return () => element?.removeEventListener("wheel", wheel);
  }, []);

  const zoom = (factor: number) => view.zoom(factor, view.size[0] / 2, view.size[1] / 2);
  const key = (event: KeyboardEvent) => {
    const nudge = event.shiftKey ? latest.current.onNudge : undefined;
    const [right, up] = view.reach(8);
    const arrow = (across: number, upward: number) => () =>
      nudge ? nudge(across * right, upward * up) : view.move(-40 * across, 40 * upward);
    const steps: Record<string, () => void> = {
      ArrowLeft: arrow(-1, 0),
      ArrowRight: arrow(1, 0),
      ArrowUp: arrow(0, 1),
      ArrowDown: arrow(0, -1),
      "+": () => zoom(1.3),
      "-": () => zoom(1 / 1.3),
      "0": () => (view.touched = false),
    };
    const step = steps[event.key];
    if (step) {
      step();
      event.preventDefault();
    }
  };

  return (
    <div class="plane">
      <canvas
        ref={canvas}
        tabIndex={0}
        role="img"
        aria-label={`${props.label} Arrow keys move, plus and minus zoom, 0 shows all.${props.onNudge ? " With Shift, arrow keys move the query." : ""}`}
        onPointerDown={down}
        onPointerMove={move}
        onPointerUp={up}
        onPointerCancel={letGo}
        onPointerLeave={() => setTip(null)}
        onKeyDown={key}
      />
      <div class="plane-tools">
        <button type="button" aria-label="Zoom in" onClick={() => zoom(1.4)}>+</button>
        <button type="button" aria-label="Zoom out" onClick={() => zoom(1 / 1.4)}>−</button>
        <button type="button" aria-label="Show all" onClick={() => (view.touched = false)}>⤢</button>
      </div>
      {tip && <div class="tip" aria-hidden="true" style={{ left: `${tip.x}px`, top: `${tip.y}px` }}>{tip.text}</div>}
      {props.children}
    </div>
  );
}

/** The nearest of some places, within reach. */
export function nearest<T>(things: Iterable<T>, place: (thing: T) => readonly [number, number], x: number, y: number, reach: Reach): T | null {
  let [found, far]: [T | null, number] = [null, 1];
  for (const thing of things) {
    const [tx, ty] = place(thing);
    const now = apart(tx - x, ty - y, reach);
    if (now < far) [found, far] = [thing, now];
  }
  return found;
}

/** Axes along the edges of a plane, at round numbers. */
export function drawAxes(pen: Pen, across: string, up: string): void {
  const { context, width, height, view } = pen;
  context.save();
  context.font = "11px system-ui, sans-serif";
  context.fillStyle = pen.colour("muted");
  context.strokeStyle = pen.colour("grid");
  context.lineWidth = 1;
  for (const value of ticks(view[0], view[2], width / 110)) {
    const x = pen.x(value);
    context.beginPath();
    context.moveTo(x, 0);
    context.lineTo(x, height);
    context.stroke();
    context.textAlign = "center";
    context.fillText(label(value), x, height - 6);
  }
  for (const value of ticks(view[1], view[3], height / 80)) {
    const y = pen.y(value);
    if (y < 34) continue; // the name of the axis stands there
    context.beginPath();
    context.moveTo(0, y);
    context.lineTo(width, y);
    context.stroke();
    context.textAlign = "left";
    context.fillText(label(value), 6, y - 4);
  }
  context.font = "600 12px system-ui, sans-serif";
  context.fillStyle = pen.colour("text");
  context.textAlign = "right";
  context.fillText(across, width - 8, height - 20);
  context.textAlign = "left";
  context.fillText(up, 8, 16);
  context.restore();
}

const label = (value: number) => String(Number(value.toPrecision(6)));

function ticks(low: number, high: number, most: number): number[] {
  const rough = (high - low) / Math.max(2, most);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough) ?? power;
  const found: number[] = [];
  for (let at = Math.ceil(low / step) * step; at <= high && found.length < 50; at += step) found.push(at);
  return found;
}

/** The smallest box around places, with something to see where there are few. */
export function around(places: Iterable<readonly [number, number]>, otherwise: Box): Box {
  let [xmin, ymin, xmax, ymax] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const [x, y] of places) {
    if (!Number.isFinite(x) || !Number.isFinite(y)) continue;
    [xmin, xmax] = [Math.min(xmin, x), Math.max(xmax, x)];
    [ymin, ymax] = [Math.min(ymin, y), Math.max(ymax, y)];
  }
  if (xmin > xmax) return otherwise;
  const wide = Math.max(xmax - xmin, ymax - ymin, 1e-9) * 0.02;
  return [xmin - wide, ymin - wide, xmax + wide, ymax + wide];
}
