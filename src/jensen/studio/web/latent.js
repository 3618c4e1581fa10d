/** A slider per latent dimension, and the row that the model makes from it. */

import { el, lastOnly, shown } from "studio/build.js";
import { stageOn } from "studio/screen.js";
import { asked } from "studio/source.js";

/** Builds the section; its `show` takes the latent vector of a row, or the reason why there is none. */
export function latentSection(parent, pair, subject) {
  const sliders = el("div", { class: "sliders" });
  const figures = el("div", { class: "figures" });
  const section = el("section", { hidden: true }, el("h2", {}, "From the latent space to a row"),
    el("p", { class: "quiet" }, "The sliders start at the latent vector of the row above."), sliders, figures);
  parent.append(section);
  const stage = stageOn(figures, el("dl"));
  let z = [];
  const update = lastOnly(section, async () => {
    const row = await asked("ask/decode", { ...pair, z });
    if (row.pixels) {
      const { shape, images, low, high } = row.pixels;
      stage.images("decoded", { title: "The row at this place", shape, limits: [low, high], size: 9, tiles: [{ values: images[0], caption: "", label: "The row at this place, as an image" }] });
    } else {
      stage.table("decoded", { title: "The row at this place", isWhole: true, head: subject.columns.map(({ name }) => name), rows: [row.cells] });
    }
    section.dataset.drawn = Number(section.dataset.drawn ?? 0) + 1;
  });
  return {
    show: (latent) => {
      section.hidden = !latent?.z;
      if (!latent?.z) return;
      z = [...latent.z];
      sliders.replaceChildren(...z.map((value, k) => {
        const id = `latent-${k}`;
        const output = el("output", { for: id }, shown(value));
        const input = el("input", { type: "range", id, min: Math.min(latent.low, value), max: Math.max(latent.high, value), step: (latent.high - latent.low) / 100, "data-latent": k + 1, oninput: () => {
          z[k] = Number(input.value);
          output.textContent = shown(z[k]);
          update();
        } });
        input.value = value;
        return el("div", { class: "control" }, el("label", { for: id }, `z${k + 1}`, output), input);
      }));
      update();
    },
  };
}
