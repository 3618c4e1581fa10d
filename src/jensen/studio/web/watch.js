/** Watch a fit: the bound of each loop, as it rises. */

import { el, shown } from "studio/build.js";
import { stageOn } from "studio/screen.js";
import { asked } from "studio/source.js";

const POLL_MS = 400;
// What is about a step, and no term of the bound.
const ABOUT = ["loop", "step", "total", "epoch", "phase", "learning_rate", "seconds"];
const MOST_POINTS = 1500;
const MOST_DOTS = 30;

/** Shows the fit until it ends. */
export async function openWatch(host) {
  const figures = el("div", { class: "figures" });
  const numbers = el("dl", { class: "readings" });
  const state = el("p", { role: "status", class: "quiet" }, "Waiting for the first step …");
  const bar = el("progress", { max: 1, value: 0, "aria-label": "Progress" });
  const title = el("h1", {}, "Watch a fit");
  host.replaceChildren(title, state, bar,
    el("div", { class: "screen" }, figures, el("div", { class: "side" }, el("section", {}, el("h2", {}, "Numbers"), numbers))));
  const stage = stageOn(figures, numbers);
  const steps = [];
  const look = async () => {
    if (!figures.isConnected) return;
    let found;
    try {
      found = await asked("watch", { seen: steps.length });
    } catch (error) {
      state.textContent = steps.length ? "The fit has ended." : error.message;
      host.dataset.drawn = 1;
      return;
    }
    title.textContent = found.title;
    steps.push(...found.steps);
    if (found.steps.length) show(stage, steps);
    const last = steps.at(-1);
    if (last) {
      state.textContent = found.end ?? `${last.loop}: ${last.epoch === undefined ? "step" : "epoch"} ${last.epoch ?? last.step}${last.total ? ` of at most ${last.total}` : ""}`;
      bar.value = found.end ? 1 : last.total ? (last.epoch ?? last.step) / last.total : 0;
    } else if (found.end) state.textContent = found.end;
    host.dataset.drawn = Number(host.dataset.drawn ?? 0) + 1;
    if (found.end === null) setTimeout(look, POLL_MS);
  };
  new ResizeObserver(() => steps.length && show(stage, steps)).observe(figures);
  await look();
}

/** Lines with a dot for each step, as long as there are few: one step alone is no line. */
function withDots(lines) {
  const short = lines.filter(({ x }) => x.length <= MOST_DOTS);
  return [...lines, ...short.map(({ x, y, tone }) => ({ kind: "points", x, y, tone, r: 3.5 }))];
}

function thinned(rows) {
  const every = Math.ceil(rows.length / MOST_POINTS);
  return rows.filter((_, i) => i % every === 0 || i === rows.length - 1);
}

function show(stage, steps) {
  const loops = [...Map.groupBy(steps, (step) => step.loop)].slice(-6);
  const at = (step) => step.epoch ?? step.step;
  const last = steps.at(-1);
  const held = last.held_out !== undefined;
  const names = held ? ["objective", "held_out"] : ["objective"];
  const lines = withDots(loops.flatMap(([loop, rows], i) => names.map((name, j) => ({
    kind: "line", x: thinned(rows).map(at), y: thinned(rows).map((row) => row[name] ?? null), tone: loops.length > 1 ? i + 1 : j + 1,
    dash: name === "held_out" ? "5 3" : null, name: `${loop}${held ? `, ${name.replace("_", " ")}` : ""}`,
  }))));
  // The first steps from the start are far below: without them the rest can be seen.
  const values = loops.flatMap(([, rows]) => rows.slice(rows.length > 20 ? Math.ceil(rows.length / 20) : 0).flatMap((row) => names.map((name) => row[name]))).filter(Number.isFinite);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const room = 0.06 * (high - low || 1);
  stage.chart("objective", { title: "Objective, higher is better", x: last.epoch === undefined ? "steps" : "epochs", y: "per row", isWhole: true, ylim: [low - room, high + room] }, lines);
  const terms = Object.keys(last).filter((name) => !ABOUT.includes(name) && !names.includes(name) && Number.isFinite(last[name]));
  if (terms.length) {
    const rows = thinned(loops.at(-1)[1]);
    stage.chart("terms", { title: "Terms", x: "epochs", y: "per row", isWhole: true, ratio: 0.28 }, withDots(terms.map((name, i) => ({
      kind: "line", x: rows.map(at), y: rows.map((row) => row[name] ?? null), tone: i + 1, name,
    }))));
  }
  stage.readings([
    [last.epoch === undefined ? "step" : "epoch", at(last)],
    ...[...names, ...terms].map((name) => [name.replace("_", " "), last[name]]),
    ...(last.seconds === undefined ? [] : [["seconds", shown(last.seconds)]]),
  ]);
}
