/** The map of a VAE's latent plane. */

const REACH = 2.6;

export function draw(stage, v) {
  const side = v.map_side;
  // One image of all tiles: row after row of pixels.
  const mosaic = Array.from({ length: side * 8 }, (_, i) => Array.from({ length: side * 8 }, (_, j) => {
    const tile = v.map[Math.floor(i / 8) * side + Math.floor(j / 8)];
    return tile[(i % 8) * 8 + (j % 8)];
  }));
  stage.images("map", {
    title: "What every place of the map decodes to", shape: [side * 8, side * 8], limits: [0, 1], size: 20,
    tiles: [{ values: mosaic, caption: "z₁ from left to right, z₂ from below to above", label: "Decoded images on a grid of the latent plane" }],
  });
  const classes = [...new Set(v.classes)].sort((a, b) => a - b);
  const marks = classes.map((digit) => ({
    kind: "points", tone: 1 + (digit % 6), r: 3, opacity: 0.25, x: v.rows.filter((_, i) => v.classes[i] === digit).map((z) => z[0]),
    y: v.rows.filter((_, i) => v.classes[i] === digit).map((z) => z[1]),
  }));
  const letters = v.rows.map((z, i) => ({ kind: "text", x: z[0], y: z[1], dy: 4, text: String(v.classes[i]), tone: 1 + (v.classes[i] % 6) }));
  stage.chart("plane", { title: "Posterior means of held-out digits", x: "z₁", y: "z₂", xlim: [-REACH, REACH], ylim: [-REACH, REACH], equal: true, note: "The ellipse is the posterior of the chosen digit, one and two standard deviations; the cross is your place." }, [
    ...marks, ...letters,
    { kind: "ellipse", at: v.mean, cov: [[v.std[0] ** 2, 0], [0, v.std[1] ** 2]], tone: 2 },
    { kind: "crosses", x: [v.z[0]], y: [v.z[1]], tone: "ink", r: 8 },
  ]);
  stage.images("images", {
    title: "Images", shape: [8, 8], limits: [0, 1], isWhole: true,
    tiles: [
      { values: v.decoded, caption: "at your place" },
      { values: v.row, caption: "the held-out digit" },
      { values: v.reconstructed, caption: "reconstructed" },
      ...v.draws.map((values, i) => ({ values, caption: `posterior draw ${i + 1}` })),
    ],
  });
  stage.readings([
    ["E_q ln p(x|z)", v.reconstruction],
    ["− KL(q ‖ N(0, I))", -v.kl],
    ["= bound on ln p(x)", v.bound, "total"],
    ["with 100 importance samples", v.many],
    ["μ₁(x)", v.mean[0]],
    ["μ₂(x)", v.mean[1]],
    ["mean bound of held-out digits", v.score],
  ]);
}
