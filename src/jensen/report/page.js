// Sorts tables, shows and hides models and series, shows tips and changes the colours. The page reads without it.
"use strict";

const all = (selector, within = document) => Array.from(within.querySelectorAll(selector));

// Tables: a click sorts, a second one turns the order round; what has no number comes last.
for (const table of all("table.sortable")) {
  all("th button", table).forEach((button) =>
    button.addEventListener("click", () => {
      const head = button.closest("th");
      const column = head.cellIndex;
      const falling = head.getAttribute("aria-sort") === "ascending";
      all("th", table).forEach((other) => other.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", falling ? "descending" : "ascending");
      const key = (row) => {
        const cell = row.cells[column];
        // A model that failed has its reason in one cell for all columns.
        if (!cell || cell.colSpan > 1) return null;
        const value = cell.dataset.value;
        if (value === undefined) return cell.textContent.trim() || null;
        return value === "nan" ? null : Number(value);
      };
      const body = table.tBodies[0];
      const rows = Array.from(body.rows).map((row) => [key(row), row]);
      rows.sort(([a], [b]) => {
        if (a === null || b === null) return (a === null) - (b === null);
        const order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
        return falling ? -order : order;
      });
      body.append(...rows.map(([, row]) => row));
    }),
  );
}

// Models: a box hides a model's lines and its section.
for (const box of all("input[data-toggle]")) {
  box.addEventListener("change", () => {
    for (const part of all("[data-model]")) {
      if (part.dataset.model === box.dataset.toggle) {
        if (part instanceof SVGElement) part.style.display = box.checked ? "" : "none";
        else part.hidden = !box.checked;
      }
    }
  });
}

// Series: a key of a legend hides its series in the chart before it.
for (const key of all(".legend .key")) {
  key.addEventListener("click", () => {
    const isShown = key.getAttribute("aria-pressed") === "true";
    key.setAttribute("aria-pressed", String(!isShown));
    const chart = key.closest(".legend").previousElementSibling;
    for (const group of all("g[data-series]", chart)) {
      if (group.dataset.series === key.dataset.for) group.style.display = isShown ? "none" : "";
    }
  });
}

// Tips: under the pointer, and beside what the keyboard has reached.
const tip = document.getElementById("tip");
const show = (mark, x, y) => {
  tip.textContent = mark.dataset.tip;
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(x + 12, innerWidth - box.width - 4))}px`;
  tip.style.top = `${Math.max(4, y - box.height - 12)}px`;
};
const marked = (event) => (event.target instanceof Element ? event.target.closest("[data-tip]") : null);
document.addEventListener("pointermove", (event) => {
  const mark = marked(event);
  if (mark) show(mark, event.clientX, event.clientY);
  else tip.hidden = true;
});
document.addEventListener("focusin", (event) => {
  const mark = marked(event);
  if (!mark) return void (tip.hidden = true);
  const box = mark.getBoundingClientRect();
  show(mark, box.left, box.top);
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") tip.hidden = true;
});

// Colours: as the system has them, or the other ones.
const theme = document.getElementById("theme");
theme.hidden = false;
theme.addEventListener("click", () => {
  const root = document.documentElement;
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  theme.textContent = isDark ? "Dark" : "Light";
});
