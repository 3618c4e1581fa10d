/** Charts in SVG: axes, and marks on them. A view lists its marks as data. */

import { el, shown, svg } from "studio/build.js";

const PAD = { left: 64, right: 15, top: 8, bottom: 42 };
const COLOURS = { ink: "var(--ink)", quiet: "var(--quiet)", grey: "var(--grey)", ground: "var(--ground)" };

/** The colour of a tone: 1 to 6, or a name. */
export function colour(tone) {
  return COLOURS[tone] ?? `var(--tone${((tone ?? 1) - 1) % 6 + 1})`;
}

/** A mix of the first tones with given shares, for points that belong to several components. */
function mixed(shares) {
  let [done, text] = [0, ""];
  shares.forEach((share, k) => {
    if (share <= 0.005) return;
    text = text ? `color-mix(in srgb, ${text} ${(100 * done / (done + share)).toFixed(0)}%, ${colour(k + 1)})` : colour(k + 1);
    done += share;
  });
  return text;
}

function bounds(values, given) {
  if (given) return given;
  const finite = values.filter((value) => value !== null && Number.isFinite(value));
  const low = Math.min(...finite);
  const high = Math.max(...finite);
  const room = (high - low || Math.abs(high) || 1) * 0.06;
  return finite.length ? [low - room, high + room] : [0, 1];
}

/** Round numbers between two ends. */
function ticks(low, high, wanted) {
  const rough = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough * 0.999);
  const first = Math.ceil(low / step - 1e-9);
  const count = Math.floor(high / step + 1e-9) - first + 1;
  return Array.from({ length: Math.max(0, count) }, (_, i) => Number(((first + i) * step).toPrecision(10)));
}

function tickText(value) {
  const size = Math.abs(value);
  const text = size !== 0 && (size >= 1e5 || size < 1e-3) ? value.toExponential(0) : String(Number(value.toPrecision(6)));
  return text.replaceAll("-", "−");
}

function values(marks, axis) {
  return marks.flatMap((mark) => {
    if (mark.kind === "ellipse") {
      const i = axis === "x" ? 0 : 1;
      const reach = 2 * Math.sqrt(mark.cov[i][i]);
      return [mark.at[i] - reach, mark.at[i] + reach];
    }
    const own = mark[axis];
    const found = own === undefined || own === null ? [] : [own].flat();
    const zero = axis === "y" && (mark.kind === "bars" || mark.kind === "area") ? [0] : [];
    return [...found, ...zero, ...(axis === "y" ? mark.low ?? [] : [])];
  });
}

/**
 * Draws a chart in a figure.
 *
 * @param {object} options title; labels x and y; xlim and ylim; `equal` for one scale on both axes; `ratio` of height to
 *   width; `describe`, the chart in words; `drag`, {points, moved}; a note below; xticks, [value, text] of each.
 * @param {object[]} marks line, area, points, ellipse, bars, rule or text.
 */
export function chart(host, options, marks) {
  const whole = Math.max(220, host.clientWidth || 480);
  const drag = options.drag;
  const all = drag ? [...marks, { kind: "points", x: drag.points.map((p) => p[0]), y: drag.points.map((p) => p[1]) }] : marks;
  let xlim = bounds(values(all, "x"), options.xlim);
  const ylim = bounds(values(all, "y"), options.ylim);
  const width = whole - PAD.left - PAD.right;
  let height = Math.max(140, width * (options.ratio ?? (options.isWhole ? 0.36 : 0.62)));
  if (options.equal) {
    height = Math.min(width * (ylim[1] - ylim[0]) / (xlim[1] - xlim[0]), width * 1.05);
    const span = (ylim[1] - ylim[0]) * width / height;
    const middle = (xlim[0] + xlim[1]) / 2;
    xlim = [middle - span / 2, middle + span / 2];
  }
  const scale = {
    x: (value) => PAD.left + width * (value - xlim[0]) / (xlim[1] - xlim[0]),
    y: (value) => PAD.top + height * (1 - (value - ylim[0]) / (ylim[1] - ylim[0])),
    width, height, xlim, ylim,
  };
  const clip = svg("svg", { x: PAD.left, y: PAD.top, width, height, viewBox: `${PAD.left} ${PAD.top} ${width} ${height}`, overflow: "hidden" });
  for (const mark of marks) clip.append(DRAWN[mark.kind](mark, scale));
  const described = options.describe ?? options.title;
  const picture = svg("svg", {
    class: "chart", viewBox: `0 0 ${whole} ${PAD.top + height + PAD.bottom}`, role: drag ? "group" : "img", "aria-label": described,
  }, axes(options, scale), clip);
  const hadFocus = host.querySelector(".handles") === document.activeElement && drag;
  if (drag) picture.append(handles(host, drag, scale, marks));
  host.replaceChildren(el("figcaption", {}, options.title), legend(marks), picture, options.note ? el("p", {}, options.note) : "");
  if (hadFocus) host.querySelector(".handles").focus();
}

function axes(options, { x, y, width, height, xlim, ylim }) {
  const group = svg("g", { "aria-hidden": "true" });
  const bottom = PAD.top + height;
  const along = options.xticks ?? ticks(...xlim, Math.max(3, width / 75)).map((value) => [value, tickText(value)]);
  for (const [value, text] of along) {
    group.append(
      svg("line", { class: "grid", x1: x(value), x2: x(value), y1: PAD.top, y2: bottom }),
      svg("text", { x: x(value), y: bottom + 18, "text-anchor": "middle" }, text),
    );
  }
  for (const value of options.yticks === false ? [] : ticks(...ylim, Math.max(3, height / 45))) {
    group.append(
      svg("line", { class: "grid", x1: PAD.left, x2: PAD.left + width, y1: y(value), y2: y(value) }),
      svg("text", { x: PAD.left - 6, y: y(value) + 4, "text-anchor": "end" }, tickText(value)),
    );
  }
  group.append(
    svg("line", { class: "axis", x1: PAD.left, x2: PAD.left + width, y1: bottom, y2: bottom }),
    svg("line", { class: "axis", x1: PAD.left, x2: PAD.left, y1: PAD.top, y2: bottom }),
    svg("text", { x: PAD.left + width / 2, y: bottom + 36, "text-anchor": "middle" }, options.x ?? ""),
    svg("text", { transform: `translate(11 ${PAD.top + height / 2}) rotate(-90)`, "text-anchor": "middle" }, options.y ?? ""),
  );
  return group;
}

function stroke(mark) {
  return { fill: "none", stroke: colour(mark.tone), "stroke-width": mark.width ?? 2, "stroke-dasharray": mark.dash, opacity: mark.opacity };
}

function path(xs, ys, { x, y }) {
  let text = "";
  let isOpen = false;
  xs.forEach((value, i) => {
    const ok = value !== null && ys[i] !== null && Number.isFinite(ys[i]);
    if (ok) text += `${isOpen ? "L" : "M"}${x(value).toFixed(1)} ${Math.max(-1e4, Math.min(1e4, y(ys[i]))).toFixed(1)}`;
    isOpen = ok;
  });
  return text;
}

const DRAWN = {
  line: (mark, scale) => svg("path", { d: path(mark.x, mark.y, scale), ...stroke(mark), "stroke-linejoin": "round" }),
  area: (mark, scale) => {
    const low = mark.low ?? mark.x.map(() => 0);
    const back = path([...mark.x].reverse(), [...low].reverse(), scale).replace("M", "L");
    return svg("path", { d: `${path(mark.x, mark.y, scale)}${back}Z`, fill: colour(mark.tone), opacity: mark.opacity ?? 0.25 });
  },
  points: (mark, { x, y }) => svg("g", {}, ...mark.x.map((value, i) => svg("circle", {
    cx: x(value), cy: y(mark.y[i]), r: (mark.sizes ? mark.sizes[i] : mark.r) ?? 3.5, opacity: mark.opacity,
    fill: mark.hollow ? "none" : mark.shares ? mixed(mark.shares[i]) : colour(mark.tones ? mark.tones[i] : mark.tone),
    stroke: mark.hollow ? colour(mark.tone) : mark.ring ? "var(--ground)" : "none", "stroke-width": mark.hollow ? 2 : 1,
  }))),
  ellipse: (mark, { x, y }) => {
    const around = Array.from({ length: 73 }, (_, i) => (i * Math.PI) / 36);
    const [[a, b], [, c]] = mark.cov;
    const l11 = Math.sqrt(a);
    const l21 = b / l11;
    const l22 = Math.sqrt(Math.max(0, c - l21 * l21));
    const lines = (mark.radii ?? [1, 2]).map((r, i) => svg("path", {
      d: `M${around.map((t) => `${x(mark.at[0] + r * l11 * Math.cos(t)).toFixed(1)} ${y(mark.at[1] + r * (l21 * Math.cos(t) + l22 * Math.sin(t))).toFixed(1)}`).join("L")}Z`,
      ...stroke(mark), "stroke-width": i ? 1.2 : 2.2,
    }));
    return svg("g", {}, ...lines, svg("path", { d: cross(x(mark.at[0]), y(mark.at[1]), 5), ...stroke(mark), "stroke-dasharray": null }));
  },
  crosses: (mark, { x, y }) => svg("path", { d: mark.x.map((value, i) => cross(x(value), y(mark.y[i]), mark.r ?? 6)).join(""), ...stroke(mark), "stroke-width": 3 }),
  bars: (mark, { x, y, width, xlim }) => {
    const step = mark.x.length > 1 ? Math.abs(mark.x[1] - mark.x[0]) : 1;
    const wide = ((mark.wide ?? 0.8) * step * width) / (xlim[1] - xlim[0]);
    return svg("g", { opacity: mark.opacity }, ...mark.x.map((value, i) => svg("rect", {
      x: x(value) - wide / 2, width: wide, y: Math.min(y(0), y(mark.y[i])), height: Math.abs(y(mark.y[i]) - y(0)),
      fill: colour(mark.tones ? mark.tones[i] : mark.tone),
    })));
  },
  rule: (mark, { x, y, xlim, ylim }) => (mark.x === undefined
    ? svg("line", { x1: x(xlim[0]), x2: x(xlim[1]), y1: y(mark.y), y2: y(mark.y), ...stroke(mark) })
    : svg("line", { x1: x(mark.x), x2: x(mark.x), y1: y(ylim[0]), y2: y(ylim[1]), ...stroke(mark) })),
  segments: (mark, { x, y }) => svg("path", { d: mark.from.map(([a, b], i) => `M${x(a)} ${y(b)}L${x(mark.to[i][0])} ${y(mark.to[i][1])}`).join(""), ...stroke(mark) }),
  text: (mark, { x, y }) => {
    const text = svg("text", { class: "strong", x: x(mark.x) + (mark.dx ?? 0), y: y(mark.y) + (mark.dy ?? 0), "text-anchor": mark.anchor ?? "middle" }, mark.text);
    // The style sheet has the colour of other texts.
    text.style.fill = colour(mark.tone ?? "ink");
    return text;
  },
};

function cross(x, y, r) {
  return `M${x - r} ${y - r}L${x + r} ${y + r}M${x - r} ${y + r}L${x + r} ${y - r}`;
}

function legend(marks) {
  const named = marks.filter((mark) => mark.name);
  return named.length === 0 ? "" : el("ul", { class: "legend" }, ...named.map((mark) => el("li", {},
    svg("svg", { viewBox: "0 0 24 11", "aria-hidden": "true" }, mark.kind === "points"
      ? svg("circle", { cx: 12, cy: 6, r: 4.5, fill: mark.hollow ? "none" : colour(mark.tone), stroke: colour(mark.tone), "stroke-width": 2 })
      : mark.kind === "area" || mark.kind === "bars" ? svg("rect", { x: 2, y: 1, width: 20, height: 9, fill: colour(mark.tone), opacity: mark.opacity ?? (mark.kind === "area" ? 0.25 : 1) })
        : svg("line", { x1: 0, x2: 24, y1: 6, y2: 6, ...stroke(mark), "stroke-width": Math.max(2, mark.width ?? 2) })),
    mark.name)));
}

/** Points that the pointer drags, and that the keyboard moves. */
function handles(host, { points, moved, label, shares, tone, names }, scale) {
  const [{ xlim, ylim }, step] = [scale, (scale.xlim[1] - scale.xlim[0]) / 60];
  host.chosen = Math.min(host.chosen ?? 0, points.length - 1);
  const kept = ([a, b]) => [Math.min(xlim[1], Math.max(xlim[0], a)), Math.min(ylim[1], Math.max(ylim[0], b))];
  const rounded = (point) => kept(point).map((value) => Number(value.toFixed(3)));
  const words = () => `${names?.[host.chosen] ?? `point ${host.chosen + 1} of ${points.length}`} at ${points[host.chosen].map(shown).join(", ")}`;
  const group = svg("g", {
    class: "handles", tabindex: 0, role: "application",
    "aria-label": `${label}: ${words()}. Page Up and Page Down choose a point, arrows move it.`,
  }, ...points.map(([a, b], i) => svg("circle", {
    class: i === host.chosen ? "handle chosen" : "handle", cx: scale.x(a), cy: scale.y(b), r: 5.5, "data-point": i,
    fill: shares ? mixed(shares[i]) : colour(tone), stroke: "var(--ground)", "stroke-width": 1,
  })));
  group.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    const on = { PageDown: 1, PageUp: -1 }[event.key];
    if (by) moved(host.chosen, rounded(points[host.chosen].map((value, j) => value + step * by[j])));
    else if (on) {
      host.chosen = (host.chosen + on + points.length) % points.length;
      group.querySelectorAll(".handle").forEach((each, i) => each.classList.toggle("chosen", i === host.chosen));
      group.setAttribute("aria-label", `${label}: ${words()}`);
    } else return;
    event.preventDefault();
  });
  group.addEventListener("pointerdown", (event) => {
    const number = event.target.dataset.point;
    if (number === undefined) return;
    event.preventDefault();
    host.chosen = Number(number);
    group.focus({ preventScroll: true });
    const move = (at) => {
      const frame = host.querySelector("svg.chart");
      const box = frame.getBoundingClientRect();
      const zoom = frame.viewBox.baseVal.width / box.width;
      const [px, py] = [(at.clientX - box.left) * zoom, (at.clientY - box.top) * zoom];
      moved(host.chosen, rounded([
        xlim[0] + ((px - PAD.left) / scale.width) * (xlim[1] - xlim[0]),
        ylim[0] + (1 - (py - PAD.top) / scale.height) * (ylim[1] - ylim[0]),
      ]));
    };
    const end = () => {
      removeEventListener("pointermove", move);
      removeEventListener("pointerup", end);
      removeEventListener("pointercancel", end);
    };
    addEventListener("pointermove", move);
    addEventListener("pointerup", end);
    addEventListener("pointercancel", end);
  });
  group.style.touchAction = "none";
  return group;
}
