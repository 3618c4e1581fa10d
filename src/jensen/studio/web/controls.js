/** The controls of an explainer: sliders, choices and points, each with a label. */

import { el } from "studio/build.js";

const PLAY_MS = 450;

/** Adds the controls to a form; `changed` is called after each change. Returns functions to read and set parameters. */
export function controlsFor(form, controls, isStill, changed) {
  const now = Object.fromEntries(controls.map((control) => [control.name, control.value]));
  const setters = {};
  for (const control of controls) {
    const set = (value, isQuiet = false) => {
      now[control.name] = value;
      if (!isQuiet) changed();
    };
    const [element, show] = BUILDERS[control.kind](control, isStill, set);
    setters[control.name] = (value, isQuiet = false) => {
      show(value);
      set(value, isQuiet);
    };
    // A static page has no control that cannot be moved.
    if (!isStill || control.kind === "points" || control.still.length > 1) form.append(element);
    if (isStill && control.kind === "slider") now[control.name] = nearest(control.still, control.value);
  }
  return { parameters: () => ({ ...now }), set: (name, value, isQuiet) => setters[name](value, isQuiet) };
}

const BUILDERS = { slider, choice, points };

function nearest(stops, value) {
  return stops.reduce((best, stop) => (Math.abs(stop - value) < Math.abs(best - value) ? stop : best));
}

function slider(control, isStill, set) {
  const id = `control-${control.name}`;
  const stops = control.still;
  const range = isStill ? { min: 0, max: stops.length - 1, step: 1 } : { min: control.low, max: control.high, step: control.step };
  const output = el("output", { for: id });
  const input = el("input", { type: "range", id, ...range, "data-control": control.name });
  const read = () => (isStill ? stops[Number(input.value)] : Number(input.value));
  const tell = () => {
    output.textContent = String(Number(read().toPrecision(6))).replace("-", "−");
    input.setAttribute("aria-valuetext", output.textContent);
  };
  const show = (value) => {
    input.value = isStill ? stops.indexOf(nearest(stops, value)) : value;
    tell();
  };
  const take = () => {
    tell();
    set(read());
  };
  input.addEventListener("input", take);
  show(control.value);
  const row = control.plays ? playing(input, control.label, take) : input;
  return [el("div", { class: "control" }, el("label", { for: id }, control.label, output), row), show];
}

/** A slider between buttons that go one step back and forth, and a button that moves it by itself. */
function playing(input, label, take) {
  let timer = null;
  const move = (by) => {
    const before = input.value;
    if (by > 0) input.stepUp();
    else input.stepDown();
    if (input.value !== before) take();
    return input.value !== before;
  };
  const play = el("button", { type: "button", class: "step", "aria-label": `Play: ${label}` }, "▶");
  const stop = () => {
    clearInterval(timer);
    timer = null;
    play.textContent = "▶";
    play.setAttribute("aria-label", `Play: ${label}`);
  };
  play.addEventListener("click", () => {
    if (timer !== null) return stop();
    if (input.value === input.max) {
      input.value = input.min;
      take();
    }
    play.textContent = "❚❚";
    play.setAttribute("aria-label", `Pause: ${label}`);
    timer = setInterval(() => {
      if (!input.isConnected || !move(1)) stop();
    }, PLAY_MS);
  });
  const button = (by, sign, name) => el("button", {
    type: "button", class: "step", "aria-label": `${name}: ${label}`,
    onclick: () => {
      stop();
      move(by);
    },
  }, sign);
  return el("div", { class: "row" }, button(-1, "‹", "One step back"), input, button(1, "›", "One step on"), play);
}

function choice(control, isStill, set) {
  const id = `control-${control.name}`;
  const words = isStill ? control.still : Object.keys(control.options);
  const select = el("select", { id, "data-control": control.name, onchange: () => set(select.value) },
    ...words.map((word) => el("option", { value: word }, control.options[word])));
  const show = (value) => {
    select.value = value;
  };
  show(control.value);
  return [el("div", { class: "control" }, el("label", { for: id }, control.label), select), show];
}

function points(control, isStill, set) {
  const button = el("button", { type: "button", disabled: true, onclick: () => {
    button.disabled = true;
    set(null);
  } }, "Put the points back");
  const show = (value) => {
    button.disabled = value === null;
  };
  const hint = isStill ? `In jensen studio, ${control.label} can be dragged.`
    : `Drag ${control.label}. With the keyboard: Page Up and Page Down choose one, arrows move it.`;
  return [el("div", { class: "control" }, el("p", { class: "hint" }, hint), isStill ? null : button), show];
}
