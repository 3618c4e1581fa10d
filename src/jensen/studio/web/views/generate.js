/** Chains from noise to digits. */

export function draw(stage, v) {
  const shape = [8, 8];
  const limits = [0, 16];
  stage.images("chains", {
    title: "Chains from noise (left) to an image (right)", shape, limits, isWhole: true, size: 4, columns: v.places.length,
    tiles: v.chains.flatMap((chain, i) => chain.map((values, j) => ({
      values, caption: i === v.chains.length - 1 ? `step ${v.places[j]}` : "", label: `Chain ${i + 1}, step ${v.places[j]}`,
    }))),
  });
  stage.images("rows", {
    title: "The images at the end of all chains", shape, limits, isWhole: true, size: 4,
    tiles: v.rows.map((values, i) => ({ values, caption: "", label: `Image ${i + 1}` })),
  });
  stage.readings([
    ["steps", v.n_steps],
    ["classified as this class, share", v.agreed],
    ["mean standard deviation of a pixel", v.spread],
  ]);
}
