/** Classes of an image by a diffusion. */

export function draw(stage, v) {
  stage.images("row", {
    title: "The image", shape: [8, 8], limits: [0, 16], size: 9,
    tiles: [{ values: v.row, caption: `a ${v.truth}; classified as ${v.predicted}`, label: `Image of the digit ${v.truth}` }],
  });
  const classes = v.probabilities.map((_, c) => c);
  const ticks = classes.map((c) => [c, String(c)]);
  stage.chart("probabilities", { title: "p(class | x)", x: "class", y: "probability", xlim: [-0.6, 9.6], ylim: [0, 1.02], xticks: ticks }, [
    { kind: "bars", x: classes, y: v.probabilities, tones: classes.map((c) => (c === v.truth ? 3 : 1)) },
  ]);
  const low = Math.min(...v.bounds);
  stage.chart("bounds", { title: "Bound on ln p(x | class)", x: "class", y: "nats", xlim: [-0.6, 9.6], xticks: ticks, isWhole: true, ratio: 0.28, ylim: [low - 2, Math.max(...v.bounds) + 2], note: "The right class is green." }, [
    { kind: "segments", from: classes.map((c) => [c, low - 2]), to: classes.map((c) => [c, v.bounds[c]]), tone: "grey", width: 2 },
    { kind: "points", x: classes, y: v.bounds, r: 6, tones: classes.map((c) => (c === v.truth ? 3 : 1)) },
  ]);
  stage.readings([
    ["the digit", v.truth],
    ["classified as", v.predicted],
    ["its probability", v.probabilities[v.predicted]],
    ["evaluations of the network", v.evaluations],
    ["of at most", v.most_evaluations],
  ]);
}
