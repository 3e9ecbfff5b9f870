// Behind Vite: the outline of land as small integers, licences, and what all of it was built from.
import { createHash } from "node:crypto";
import { cpSync, mkdirSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { feature } from "topojson-client";

const out = "../src/rankcast/service/console";

// Rings of land in hundredths of a degree, each as differences from point to point.
const atlas = JSON.parse(readFileSync("node_modules/world-atlas/land-50m.json", "utf8"));
const land = feature(atlas, atlas.objects.land);
const rings = [];
for (const each of land.features ?? [land]) {
  const polygons = each.geometry.type === "Polygon" ? [each.geometry.coordinates] : each.geometry.coordinates;
  for (const polygon of polygons)
    for (const ring of polygon) {
      let [px, py] = [0, 0];
      const packed = [];
      for (const [x, y] of ring) {
        const [qx, qy] = [Math.round(x * 100), Math.round(y * 100)];
        if (packed.length && qx === px && qy === py) continue;
        packed.push(qx - px, qy - py);
        [px, py] = [qx, qy];
      }
      if (packed.length > 6) rings.push(packed);
    }
}
writeFileSync("dist/land.json", JSON.stringify(rings));

const NAMES = ["preact", "@preact/signals", "@preact/signals-core", "uplot", "world-atlas"];
const licences = NAMES.map((name) => {
  const about = JSON.parse(readFileSync(join("node_modules", name, "package.json"), "utf8"));
  const file = readdirSync(join("node_modules", name)).find((each) => /^licen[cs]e/i.test(each));
  const text = file ? readFileSync(join("node_modules", name, file), "utf8").trim() : "";
  return `${name} ${about.version} (${about.license})\n\n${text}\n`;
});
writeFileSync("dist/licences.txt", licences.join("\n----\n\n"));
cpSync("tools/icon.svg", "dist/icon.svg");
renameSync("dist/zone.d.ts", "dist/rankcast-zone.d.ts");

// A test compares this with the sources that it finds.
const hash = createHash("sha256");
const walk = (folder) =>
  readdirSync(folder, { withFileTypes: true })
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .forEach((each) => {
      const path = join(folder, each.name);
      if (each.isDirectory()) return walk(path);
      hash.update(`${path.replaceAll("\\", "/")}\n`).update(readFileSync(path));
    });
for (const folder of ["src", "tools"]) walk(folder);
for (const file of ["index.html", "package-lock.json", "package.json", "tsconfig.json", "vite.config.ts"])
  hash.update(`${file}\n`).update(readFileSync(file));
writeFileSync("dist/built-from.txt", `${hash.digest("hex")}\n`);

rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
let total = 0;
for (const name of readdirSync("dist")) {
  const size = gzipSync(readFileSync(join("dist", name))).length;
  if (name !== "land.json") total += size;
  console.log(`${name.padEnd(20)} ${(size / 1000).toFixed(1)} kB compressed`);
  renameSync(join("dist", name), join(out, name));
}
rmSync("dist", { recursive: true, force: true });
console.log(`${(total / 1000).toFixed(1)} kB compressed without the base map`);
