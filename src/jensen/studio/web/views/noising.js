/** A digit with noise, the best guess behind it, and the schedules. */

export function draw(stage, v) {
  const shape = [8, 8];
  const limits = [-1, 1];
  stage.images("digit", {
    title: `Level ${v.level} of 200`, shape, limits, size: 9, isWhole: true,
    tiles: [
      { values: v.clean, caption: "x₀, the image" },
      { values: v.noised, caption: "xₜ, with noise" },
      { values: v.denoised, caption: "best guess of x₀" },
    ],
  });
  stage.images("strip", {
    title: "The same noise at other levels", shape, limits, size: 4.6, isWhole: true,
    tiles: v.strip.map((values, i) => ({ values, caption: `t = ${v.strip_levels[i]}` })),
  });
  const lines = (curves) => Object.entries(curves).map(([name, y], i) => ({
    kind: "line", x: v.levels, y, tone: i + 1, name, width: name === v.schedule ? 3 : 1.5, dash: name === v.schedule ? null : "4 3",
  }));
  const here = { kind: "rule", x: v.level, tone: "grey", dash: "2 3", width: 1.5 };
  stage.chart("signal", { title: "ᾱ, what is left of the image", x: "t", y: "ᾱ", xlim: [0, 200], ylim: [0, 1] }, [...lines(v.curves), here, { kind: "points", x: [v.level], y: [v.alpha_bar], tone: "ink", r: 5 }]);
  stage.chart("beta", { title: "β, the noise of each step", x: "t", y: "β", xlim: [0, 200], ylim: [0, 0.3] }, [...lines(v.beta), here]);
  stage.readings([
    ["ᾱ", v.alpha_bar],
    ["signal to noise, ᾱ/(1−ᾱ)", v.snr],
    ["mean squared error of the guess", v.error],
    [`images that the guess averages, of ${v.n_images}`, v.images],
  ]);
}
