/** A direction through points, and the error of every direction. */

export function draw(stage, v, set) {
  const moved = (i, point) => set("points", v.points.map((each, j) => (i === j ? point : each)));
  const end = (by) => [v.mean[0] + by * v.u[0], v.mean[1] + by * v.u[1]];
  const [a, b] = [end(-9), end(9)];
  stage.chart("points", {
    title: "Rows, their shadows and the line", equal: true, isWhole: true, x: "x₁", y: "x₂", xlim: [-6, 6], ylim: [-3, 3],
    describe: "Rows in the plane, a line through their mean, and the shadow of each row on it",
    drag: { points: v.points, moved, label: "Rows", tone: 1 },
    note: "The ellipses are probabilistic PCA: one and two standard deviations of N(μ, WWᵀ + σ²I).",
  }, [
    { kind: "ellipse", at: v.mean, cov: v.covariance, tone: 4 },
    { kind: "line", x: [a[0], b[0]], y: [a[1], b[1]], tone: 2 },
    { kind: "segments", from: v.points, to: v.shadows, tone: "grey", width: 1.2, dash: "3 3" },
    { kind: "points", x: v.shadows.map((p) => p[0]), y: v.shadows.map((p) => p[1]), tone: 2, r: 3.5 },
  ]);
  stage.chart("error", { title: "Reconstruction error of every direction", x: "direction, in degrees", y: "error", ylim: [0, Math.max(...v.errors) * 1.08], xlim: [0, 180], isWhole: true, ratio: 0.25 }, [
    { kind: "line", x: v.angles, y: v.errors, tone: 1 },
    { kind: "rule", x: v.best, tone: 3, dash: "5 3", width: 1.5, name: "first principal component" },
    { kind: "points", x: [v.angle], y: [v.error], tone: 2, r: 6, name: "your direction" },
  ]);
  stage.readings([
    ["error", v.error],
    ["+ spread of the shadows", v.spread],
    ["= Σᵢ ‖xᵢ − x̄‖²", v.error + v.spread, "total"],
    ["least error", v.best_error],
    ["eigenvalue left out, n σ²", v.left],
    ["best direction, degrees", v.best],
    ["σ², probabilistic PCA", v.noise_variance],
    ["mean ln p, nats per row", v.log_p],
  ]);
}
