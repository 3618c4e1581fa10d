/** A latent curve and the posterior of one row. */

export function draw(stage, v) {
  const [x1, x2] = v.row;
  const known = { kind: "rule", tone: 2, dash: "5 4", width: 1.5, name: "what is observed" };
  const row = x1 === null ? { ...known, y: x2 } : x2 === null ? { ...known, x: x1 } : { kind: "points", x: [x1], y: [x2], tone: 2, r: 7, name: "the row" };
  const top = Math.max(...v.posterior);
  const column = (points, i) => points.map((point) => point[i]);
  stage.chart("plane", {
    title: "Rows, the curve and the posterior on it", equal: true, isWhole: true, x: "x₁", y: "x₂", xlim: [-2, 2], ylim: [-1.15, 1.15],
    note: "The larger a circle on the curve, the more probable its place. The posterior mean can lie off all of them.",
  }, [
    { kind: "points", x: column(v.rows, 0), y: column(v.rows, 1), tone: "grey", r: 2.5, opacity: 0.6, name: "rows" },
    { kind: "line", x: column(v.curve, 0), y: column(v.curve, 1), tone: 1, width: 2.5, name: "f(z)" },
    { kind: "points", x: column(v.places, 0), y: column(v.places, 1), sizes: v.posterior.map((p) => (p > 0.001 * top ? 2 + 9 * Math.sqrt(p / top) : 0)), tone: 4, opacity: 0.55, name: "p(z|x)" },
    ...(x1 === null || x2 === null ? [{ kind: "points", x: [v.imputed[0]], y: [v.imputed[1]], tone: 3, r: 6, hollow: true, name: "imputed by the posterior mean" }] : []),
    row,
  ]);
  stage.chart("posterior", { title: "Posterior of the place on the curve", x: "z", y: "probability", xlim: [0, 1], ylim: [0, top * 1.1], isWhole: true, ratio: 0.22 }, [
    { kind: "bars", x: v.grid, y: v.posterior, tone: 4, wide: 1 },
    { kind: "rule", x: v.mean, tone: 3, dash: "4 3", width: 1.5, name: "mean of z" },
  ]);
  stage.readings([
    ["E_q ln p(x|z)", v.reconstruction],
    ["− KL(q ‖ Uniform)", -v.kl],
    ["= ln p(x)", v.log_p, "total"],
    ["mean of z", v.mean],
    ["x₁, observed or imputed", v.imputed[0]],
    ["x₂, observed or imputed", v.imputed[1]],
    ["σ", v.std],
    ["mean ln p of all rows", v.score],
  ]);
}
