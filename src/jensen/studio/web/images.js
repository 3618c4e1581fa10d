/** Small grey images side by side, each with a caption. */

import { el } from "studio/build.js";

/** An image on a canvas: values from `low` (white) to `high` (black). */
function pixels(values, shape, [low, high], label) {
  const [height, width] = shape;
  const canvas = el("canvas", { class: "pixels", width, height, role: "img", "aria-label": label });
  const context = canvas.getContext("2d");
  const data = context.createImageData(width, height);
  values.flat().forEach((value, i) => {
    const grey = 255 * (1 - Math.min(1, Math.max(0, (value - low) / (high - low))));
    data.data.set([grey, grey, grey, 255], 4 * i);
  });
  context.putImageData(data, 0, 0);
  return canvas;
}

/**
 * Draws images in a figure.
 *
 * @param {object} options title; tiles, each with values and a caption; shape and limits of an image; a note; size in em; columns of a grid.
 */
export function images(host, { title, tiles, shape, limits, note, size = 5.2, columns, describe }) {
  const list = el("div", { class: "tiles" }, ...tiles.map(({ values, caption, label }) => {
    const tile = el("div", {}, pixels(values, shape, limits, label ?? `${describe ?? title}: ${caption}`), caption);
    tile.style.width = `${size}rem`;
    return tile;
  }));
  if (columns) {
    list.classList.add("grid");
    list.style.gridTemplateColumns = `repeat(${columns}, minmax(0, ${size}rem))`;
    for (const tile of list.children) tile.style.width = "auto";
  }
  host.replaceChildren(el("figcaption", {}, title), list, note ? el("p", {}, note) : "");
}
