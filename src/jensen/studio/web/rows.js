/** New rows: from the model, or from the model given some cells. */

import { el, shown } from "studio/build.js";
import { stageOn } from "studio/screen.js";
import { asked } from "studio/source.js";

/** Builds the section; `cells` returns the cells of the row above. */
export function drawSection(parent, pair, subject, cells) {
  if (subject.offers.sample !== true) {
    parent.append(el("section", {}, el("h2", {}, "New rows"), el("p", { class: "quiet" }, subject.offers.sample.reason ?? "")));
    return;
  }
  const figures = el("div", { class: "figures" });
  const stage = stageOn(figures, el("dl"));
  const message = el("div", { role: "status" });
  let seed = 0;
  const ticks = subject.columns.map(({ name }, j) => [name, el("input", { type: "checkbox", id: `given-${j}`, "data-given": name })]);
  const draw = async () => {
    const above = cells();
    const chosen = Object.fromEntries(ticks.filter(([, tick]) => tick.checked).map(([name]) => [name, above[name]]));
    try {
      const found = await asked("ask/draw", { ...pair, n: 8, seed: seed++, cells: chosen });
      message.replaceChildren();
      showRows(stage, found);
    } catch (error) {
      message.replaceChildren(el("p", { class: "error" }, error.message));
    }
    section.dataset.drawn = Number(section.dataset.drawn ?? 0) + 1;
  };
  const section = el("section", {}, el("h2", {}, "New rows"),
    ticks.length ? el("fieldset", {}, el("legend", {}, "Given, as in the row above"),
      ...ticks.map(([name, tick], j) => el("label", { for: `given-${j}`, class: "tick" }, tick, name))) : null,
    el("button", { type: "button", class: "main", onclick: draw }, "Draw rows"), message, figures);
  parent.append(section);
}

function showRows(stage, found) {
  if (found.pixels) {
    const { shape, images, low, high } = found.pixels;
    stage.images("rows", { title: "Rows drawn from the model", isWhole: true, shape, limits: [low, high], tiles: images.map((values, i) => ({ values, caption: "", label: `Row ${i + 1} drawn from the model` })) });
    return;
  }
  stage.table("rows", { title: found.summaries ? "Rows given these cells" : "Rows drawn from the model", isWhole: true, head: found.rows.head, rows: found.rows.rows });
  if (!found.summaries) return stage.remove("summaries");
  stage.table("summaries", {
    title: "What the given cells say about the others", isWhole: true, head: ["column", "mean", "90 % of draws"], note: `From ${found.n_draws} draws.`,
    rows: found.summaries.map((each) => (each.shares
      ? [each.column, "", each.shares.map(([level, share]) => `${level} ${(100 * share).toFixed(0)} %`).join(", ")]
      : [each.column, each.mean, `${shown(each.low)} to ${shown(each.high)}`])),
  });
}
