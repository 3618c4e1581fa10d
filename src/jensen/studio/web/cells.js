/** The cells of a row: a slider or a choice for each column, and whether it is missing. */

import { el, shown } from "studio/build.js";

const STEPS = 200;

/** Builds an editor; `changed(column, isFocus)` is called after each change, and when a cell gets the focus. Returns functions to show and to read cells. */
export function cellsEditor(host, columns, takesMissing, changed) {
  const own = {};
  let edited = {};
  const rows = columns.map((column, j) => {
    const id = `cell-${j}`;
    const input = column.kind === "number"
      ? el("input", { type: "range", id, min: column.low, max: column.high, step: column.is_whole ? 1 : (column.high - column.low) / STEPS, "data-column": column.name })
      : el("select", { id, "data-column": column.name }, ...column.levels.map((level) => el("option", { value: level }, level)));
    const output = el("output", { for: id });
    const blame = el("span", { class: "blame", "data-blame": column.name });
    const missing = el("input", { type: "checkbox", id: `${id}-missing`, "data-missing": column.name, disabled: !takesMissing });
    const value = () => (missing.checked ? null : column.kind === "number" ? Number(input.value) : input.value);
    const tell = () => {
      output.textContent = missing.checked ? "missing" : column.kind === "number" ? shown(value()) : "";
    };
    const take = () => {
      input.disabled = missing.checked;
      edited[column.name] = value();
      tell();
      changed(column.name);
    };
    input.addEventListener("input", take);
    input.addEventListener("focus", () => changed(column.name, true));
    missing.addEventListener("change", take);
    own[column.name] = {
      blame,
      show: (given) => {
        missing.checked = given === null;
        input.disabled = given === null;
        if (given !== null) input.value = given;
        tell();
        if (given !== null && column.kind === "number") output.textContent = shown(given);
      },
    };
    return el("div", { class: "cell" },
      el("label", { for: id }, column.name, output), input,
      el("div", { class: "under" }, el("label", { for: `${id}-missing`, class: "tick" }, missing, "missing"), blame));
  });
  host.replaceChildren(...rows);
  return {
    edited: () => ({ ...edited }),
    reset: () => { edited = {}; },
    show: (cells) => columns.forEach(({ name }, j) => own[name].show(cells[j])),
    blame: (found) => {
      for (const { blame } of Object.values(own)) blame.replaceChildren();
      if (!Array.isArray(found)) return;
      for (const { column, nats, tail, expected, low, high } of found) {
        const { blame } = own[column];
        if (nats === null) continue;
        blame.classList.toggle("odd", tail !== undefined && tail !== null && tail < 0.01);
        const between = low === undefined || low === expected ? "" : ` (${shown(low)} to ${shown(high)})`;
        blame.append(`${shown(nats)} nats`, expected === undefined ? "" : `; expected ${shown(expected)}${between}`);
      }
    },
  };
}
