/** Ask a model: open a file and a table, change the cells of a row, and see what the model returns. */

import { el, lastOnly, shown } from "studio/build.js";
import { cellsEditor } from "studio/cells.js";
import { latentSection } from "studio/latent.js";
import { drawSection } from "studio/rows.js";
import { stageOn } from "studio/screen.js";
import { asked } from "studio/source.js";

/** Shows the form that opens a model, and opens what was named on the command line. */
export async function openAsk(host) {
  const files = await asked("files");
  const message = el("div", { role: "status" });
  const body = el("div");
  const choice = (id, label, names) => {
    const select = el("select", { id }, ...names.map((name) => el("option", { value: name }, name)));
    return [el("div", { class: "control" }, el("label", { for: id }, label), select), select];
  };
  const [modelBox, model] = choice("ask-model", "Model", files.models);
  const [tableBox, table] = choice("ask-table", "Table", files.tables);
  for (const name of files.given) {
    if (files.models.includes(name)) model.value = name;
    else table.value = name;
  }
  const open = async () => {
    message.replaceChildren(el("p", { class: "quiet" }, "Opening …"));
    body.replaceChildren();
    try {
      const pair = { model: model.value, table: table.value };
      const subject = await asked("ask/open", pair);
      message.replaceChildren();
      await showSubject(body, pair, subject);
    } catch (error) {
      message.replaceChildren(el("p", { class: "error" }, error.message));
    }
    host.dataset.drawn = Number(host.dataset.drawn ?? 0) + 1;
  };
  host.replaceChildren(
    el("h1", {}, "Ask a model"),
    el("p", { class: "lead" }, "Open a fitted model and a table. Change a cell of a row, or remove it, and see what the model returns: "
      + "ln p and its terms, the posterior, imputations with intervals, and how unlikely each cell is given the others."),
    files.models.length === 0
      ? el("p", { class: "error" }, "There is no model file in this folder. Write one with: jensen fit gaussian-mixture table.csv -o model.jensen")
      : el("form", { class: "controls opener", onsubmit: (event) => { event.preventDefault(); open(); } },
        modelBox, tableBox, el("button", { class: "main" }, "Open")),
    message, body,
  );
  if (files.models.length && files.given.length > 1) await open();
  else host.dataset.drawn = 1;
}

async function showSubject(body, pair, subject) {
  const figures = el("div", { class: "figures" });
  const numbers = el("dl", { class: "readings" });
  const notes = el("ul", { class: "reasons" });
  const editorBox = el("div", { class: "cells" });
  const message = el("div", { role: "status" });
  const later = el("div");
  const number = el("input", { type: "number", id: "ask-row", min: 1, max: subject.n_rows, value: 1, step: 1 });
  const isTable = subject.columns.length > 0;
  let column = subject.columns.find(({ kind }) => kind === "number")?.name ?? subject.columns[0]?.name ?? null;
  let answer = null;

  const stage = stageOn(figures, numbers);
  const redraw = () => answer && showAnswer(stage, notes, answer, subject);
  const host = body.closest(".host");
  const update = lastOnly(host, async (isNew) => {
    try {
      answer = await asked("ask/row", { ...pair, row: Number(number.value), cells: editor.edited(), column });
      message.replaceChildren();
      if (isNew && answer.cells) editor.show(answer.cells);
      editor.blame(answer.blame);
      redraw();
      if (isNew) latent.show(answer.latent);
    } catch (error) {
      message.replaceChildren(el("p", { class: "error" }, error.message));
    }
    host.dataset.answered = Number(host.dataset.answered ?? 0) + 1;
  });
  const editor = cellsEditor(editorBox, subject.columns, subject.takes_missing, (name, isFocus) => {
    const isSame = column === name;
    column = name;
    if (!isFocus || !isSame) update(false);
  });
  const fresh = () => {
    editor.reset();
    update(true);
  };
  number.addEventListener("change", fresh);
  const latent = latentSection(later, pair, subject);
  drawSection(later, pair, subject, () => ({ ...Object.fromEntries(subject.columns.map(({ name }, j) => [name, answer.cells[j]])), ...editor.edited() }));
  body.replaceChildren(
    el("p", { class: "quiet about" }, `${subject.arguments}; ${subject.n_rows} rows; score: ${subject.score}`),
    message,
    el("div", { class: "screen" }, figures, el("div", { class: "side" },
      el("form", { class: "controls", "aria-label": "Row", onsubmit: (event) => event.preventDefault() },
        el("div", { class: "control" }, el("label", { for: "ask-row" }, `Row, 1 to ${subject.n_rows}`),
          el("div", { class: "row" }, number, el("button", { type: "button", onclick: fresh }, "As in the table"))),
        isTable ? editorBox : el("p", { class: "hint" }, "The cells of these rows cannot be changed one by one.")),
      el("section", {}, el("h2", {}, "Numbers"), numbers, notes)),
    el("div", { class: "below wide-below" }, later)),
  );
  new ResizeObserver(redraw).observe(figures);
  await update(true);
}

const isAnswer = (part) => part !== null && part !== undefined && part.reason === undefined;

function showAnswer(stage, notes, answer, subject) {
  const { along, posterior, bound, predict, imputed } = answer;
  if (answer.pixels) {
    const { shape, images, low, high } = answer.pixels;
    stage.images("row", { title: "The row", shape, limits: [low, high], size: 9, tiles: [{ values: images[0], caption: "" , label: "The row as an image" }] });
  }
  if (isAnswer(along)) {
    const here = answer.cells[subject.columns.findIndex(({ name }) => name === along.column)];
    const isNumber = typeof along.values[0] === "number";
    const xs = isNumber ? along.values : along.values.map((_, i) => i + 1);
    const at = isNumber ? here : along.values.indexOf(here) + 1;
    stage.chart("along", {
      title: `ln p of the row as ${along.column} changes`, x: along.column, y: "ln p(x)", isWhole: true, ratio: 0.3,
      ...(isNumber ? {} : { xlim: [0.4, xs.length + 0.6], xticks: xs.map((x, i) => [x, along.values[i]]) }),
    }, [
      isNumber ? { kind: "line", x: xs, y: along.log_p, tone: 1 } : { kind: "points", x: xs, y: along.log_p, tone: 1, r: 5 },
      ...(here === null ? [] : [{ kind: "rule", x: at, tone: 2, dash: "4 3", width: 1.5, name: "this row" }]),
    ]);
  } else stage.remove("along");
  if (isAnswer(posterior) && posterior.kind === "probabilities") {
    // Numbered from 0, as predictions are.
    const xs = posterior.values.map((_, k) => k);
    const names = isAnswer(predict) && predict.names?.length === xs.length ? predict.names : xs.map(String);
    stage.chart("posterior", { title: "Posterior q(z | x)", x: "z", y: "probability", xlim: [-0.6, xs.length - 0.4], ylim: [0, 1.02], xticks: xs.length > 15 ? undefined : xs.map((k) => [k, names[k]]), note: posterior.shares && xs.length <= 15 ? `Shares of all rows: ${names.map((name, k) => `${name}: ${(100 * posterior.shares[k]).toFixed(1)} %`).join(", ")}` : "" }, [
      { kind: "bars", x: xs, y: posterior.values, tone: 1 },
    ]);
  } else if (isAnswer(posterior)) {
    const xs = posterior.mean.map((_, k) => k + 1);
    const span = (by) => posterior.mean.map((mean, k) => [xs[k], mean + by * posterior.std[k]]);
    stage.chart("posterior", { title: "Posterior q(z | x): mean ± 2 standard deviations", x: "latent dimension", y: "z", xlim: [0.4, xs.length + 0.6], xticks: xs.map((k) => [k, String(k)]) }, [
      { kind: "segments", from: span(-2), to: span(2), tone: 1, width: 3 },
      { kind: "points", x: xs, y: posterior.mean, tone: 1, r: 5 },
      { kind: "points", x: xs.flatMap((k) => [k, k]), y: [...span(-2), ...span(2)].map((p) => p[1]), r: 0 },
      { kind: "rule", y: 0, tone: "grey", width: 1 },
    ]);
  } else stage.remove("posterior");
  if (isAnswer(imputed) && imputed.length) {
    stage.table("imputed", {
      title: "Imputed", head: ["column", "imputed", "90 % of draws"],
      rows: imputed.map((each) => [each.column, each.imputed,
        each.shares ? each.shares.map(([level, share]) => `${level} ${(100 * share).toFixed(0)} %`).join(", ") : `${shown(each.low)} to ${shown(each.high)}`]),
    });
  } else stage.remove("imputed");
  const lines = [];
  if (isAnswer(bound)) {
    lines.push(["reconstruction", bound.reconstruction],
      ...Object.entries(bound.kl).map(([name, value]) => [`− KL, ${name}`, -value]),
      [bound.is_exact ? "= bound = ln p(x)" : "= bound", bound.total, "total"]);
  }
  if (typeof answer.log_p === "number") lines.push([subject.score === "exact" ? "ln p(x)" : "score, a bound on ln p(x)", answer.log_p]);
  if (isAnswer(predict)) {
    lines.push(["prediction", predict.value]);
    if (predict.probabilities) lines.push(["its probability", Math.max(...predict.probabilities)]);
  }
  stage.readings(lines);
  const reasons = { log_p: "ln p", bound: "bound", posterior: "posterior", predict: "prediction", imputed: "imputation", blame: "blame" };
  notes.replaceChildren(...Object.entries(reasons).filter(([name]) => answer[name]?.reason)
    .map(([name, title]) => el("li", { "data-reason": name }, `No ${title}: ${answer[name].reason}`)));
}
