/** Elements of the page: HTML and SVG, made from names, attributes and children. */

const SVG = "http://www.w3.org/2000/svg";

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** An HTML element; attributes that begin with `on` are listeners. */
export function el(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/** An SVG element. */
export function svg(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

/** A number for a reader: four digits, or `–` where there is none. */
export function shown(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return String(value);
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-4) return value.toExponential(2).replaceAll("-", "−");
  const digits = size >= 100 ? 1 : size >= 10 ? 2 : size >= 0.1 ? 3 : 4;
  const text = Number.isInteger(value) ? String(value) : value.toFixed(digits);
  return text.replace("-", "−");
}

/** Runs one call at a time; of those that come meanwhile only the last. `host` is busy until none is left. */
export function lastOnly(host, run) {
  let isBusy = false;
  let next = null;
  return async function start(...given) {
    if (isBusy) {
      next = given;
      return;
    }
    isBusy = true;
    host.setAttribute("aria-busy", "true");
    try {
      await run(...given);
    } finally {
      isBusy = false;
      if (next !== null) {
        const latest = next;
        next = null;
        start(...latest);
      } else host.setAttribute("aria-busy", "false");
    }
  };
}
