/** The screen of an explainer: figures, controls, numbers, formulas and what to try. */

import { el, lastOnly, shown } from "studio/build.js";
import { controlsFor } from "studio/controls.js";
import { chart } from "studio/draw.js";
import { images } from "studio/images.js";

const POLL_MS = 700;

/** Where a view draws; what has the same key is drawn in the same place. */
export function stageOn(figures, numbers) {
  const places = new Map();
  function place(key, isWhole) {
    if (!places.has(key)) {
      const figure = el("figure", { class: isWhole ? "whole" : null, "data-figure": key });
      places.set(key, figure);
      figures.append(figure);
    }
    return places.get(key);
  }
  return {
    chart: (key, options, marks) => chart(place(key, options.isWhole), options, marks),
    images: (key, options) => images(place(key, options.isWhole), options),
    table: (key, options) => table(place(key, options.isWhole), options),
    readings: (lines) => numbers.replaceChildren(...lines.flatMap(([label, value, kind]) => [
      el("dt", { class: kind }, label),
      el("dd", { class: kind, "data-reading": label, "data-value": value }, shown(value)),
    ])),
    remove: (key) => {
      places.get(key)?.remove();
      places.delete(key);
    },
  };
}

function table(host, { title, head, rows, note }) {
  const line = (kind, cells) => el("tr", {}, ...cells.map((cell) => el(kind, kind === "th" ? { scope: "col" } : {}, shown(cell))));
  host.replaceChildren(
    el("figcaption", {}, title),
    el("div", { class: "wide", tabindex: 0, role: "region", "aria-label": title },
      el("table", {}, el("thead", {}, line("th", head)), el("tbody", {}, ...rows.map((row) => line("td", row))))),
    note ? el("p", {}, note) : "",
  );
}

/** Shows an explainer in `host`, with values from `source`. */
export async function openExplainer(host, explainer, source, guides) {
  const figures = el("div", { class: "figures" });
  const numbers = el("dl", { class: "readings" });
  const form = el("form", { class: "controls", "aria-label": "Controls", onsubmit: (event) => event.preventDefault() });
  const message = el("div", { role: "status" });
  const part = (title, body) => el("section", {}, el("h2", {}, title), body);
  host.replaceChildren(
    el("h1", {}, explainer.title),
    el("p", { class: "lead" }, explainer.lead),
    message,
    el("div", { class: "screen" }, figures,
      el("div", { class: "side" }, form, part("Numbers", numbers)),
      el("div", { class: "below" },
        part("Formula", el("pre", { class: "formula", tabindex: 0, "aria-label": "Formula" }, explainer.formula)),
        part("Try", el("ul", { class: "tries" }, ...explainer.tries.map((text) => el("li", {}, text))))),
    ),
    guides ? el("p", { class: "quiet" }, el("a", { href: guides + explainer.guide }, "The page of the documentation"),
      ...(explainer.exercise ? [" · ", el("a", { href: guides + explainer.exercise }, "The exercise, with a proof")] : [])) : "",
  );
  const { draw } = await import(`studio/views/${explainer.name}.js`);
  const stage = stageOn(figures, numbers);
  let values = null;
  const redraw = () => values && draw(stage, values, controls.set, controls.parameters());
  const update = lastOnly(host, async () => {
    figures.classList.add("busy");
    try {
      const answer = await source.values(explainer.name, controls.parameters());
      if (answer.training) return wait(answer.training);
      values = answer;
      message.replaceChildren();
      redraw();
    } catch (error) {
      message.replaceChildren(el("p", { class: "error" }, error.message));
    }
    figures.classList.remove("busy");
    host.dataset.drawn = Number(host.dataset.drawn ?? 0) + 1;
  });
  const wait = ({ text, done, total }) => {
    message.replaceChildren(el("p", { class: "error" }, text),
      el("progress", { max: total ?? 1, value: total ? done : null, "aria-label": text }));
    setTimeout(() => figures.isConnected && update(), POLL_MS);
  };
  const controls = controlsFor(form, explainer.controls, source.isStill, update);
  let width = 0;
  new ResizeObserver(() => {
    if (figures.clientWidth !== width) redraw();
    width = figures.clientWidth;
  }).observe(figures);
  await update();
}
