// Builds the page into one script and one style sheet: node build.mjs FOLDER
import { build } from "esbuild";
import { readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import path from "node:path";

const here = path.dirname(fileURLToPath(import.meta.url));
const target = path.resolve(here, process.argv[2] ?? "../src/stepscope/render/static");
const packages = ["echarts", "zrender", "tabulator-tables", "tslib"];

await build({
  absWorkingDir: here,
  entryPoints: { app: "src/main.ts" },
  outdir: target,
  bundle: true,
  minify: true,
  format: "iife",
  target: ["chrome110", "firefox115", "safari16"],
  charset: "utf8",
  legalComments: "none",
  logLevel: "warning",
});

const texts = [];
for (const name of packages) {
  const folder = path.join(here, "node_modules", name);
  const { version } = JSON.parse(await readFile(path.join(folder, "package.json"), "utf8"));
  for (const file of ["LICENSE", "LICENSE.txt", "NOTICE"]) {
    const text = await readFile(path.join(folder, file), "utf8").catch(() => "");
    if (text) texts.push(`${name} ${version}: ${file}\n\n${text.trim()}\n`);
  }
}
await writeFile(path.join(target, "LICENSES.txt"), texts.join(`\n${"=".repeat(80)}\n\n`));
