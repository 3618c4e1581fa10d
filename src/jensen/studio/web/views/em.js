/** EM on points, and gradient EM beside it. */

export function draw(stage, v, set) {
  const moved = (i, point) => set("points", v.points.map((each, j) => (i === j ? point : each)));
  const ellipses = (model, dash) => model.means.map((at, k) => ({ kind: "ellipse", at, cov: model.covariances[k], tone: k + 1, dash }));
  stage.chart("points", {
    title: v.step === 0 ? "Points and the start" : `Points and components after ${v.step} ${v.step === 1 ? "step" : "steps"}`, equal: true, isWhole: true, x: "x₁", y: "x₂",
    xlim: [-6.5, 6.5], ylim: [-3, 3], describe: "Points in the plane, and an ellipse for each component of the mixture",
    drag: { points: v.points, moved, shares: v.shares, label: "Points" },
    note: "Solid: EM. Dashed: gradient EM. Ellipses are one and two standard deviations; colours are the posterior shares q.",
  }, [...ellipses(v.gradient, "5 4"), ...ellipses(v.model)]);
  const steps = v.history.map((_, i) => i);
  const low = Math.min(v.history[0], v.bound, v.log_p);
  const high = Math.max(...v.history, ...v.history_gradient);
  stage.chart("history", { title: "Mean ln p, step by step", x: "steps", y: "nats per row", ylim: [low - 0.06 * (high - low), high + 0.06 * (high - low)] }, [
    { kind: "rule", x: v.step, tone: "grey", dash: "4 3", width: 1.5 },
    { kind: "line", x: steps, y: v.history_gradient, tone: 4, dash: "5 4", name: "gradient EM" },
    { kind: "line", x: steps, y: v.history, tone: 1, name: "EM" },
    { kind: "points", x: [v.step], y: [v.log_p], tone: 1, r: 6 },
    { kind: "points", x: [v.step], y: [v.log_p_gradient], tone: 4, r: 5 },
  ]);
  const most = Math.max(v.gap * 1.3, 0.05);
  stage.chart("gap", {
    title: v.is_m_step ? "After the M-step: a gap" : "After the E-step: no gap", y: "nats per row", x: "",
    ylim: [v.bound - most * 0.4, v.bound + most], xlim: [0, 3], xticks: [[1, "ELBO(q, θ)"], [2, "ln p(x)"]],
  }, [
    { kind: "line", x: [0.6, 1.4], y: [v.bound, v.bound], tone: 3, width: 4 },
    { kind: "line", x: [1.6, 2.4], y: [v.log_p, v.log_p], tone: 1, width: 4 },
    { kind: "line", x: [2, 2], y: [v.bound, v.log_p], tone: 2, width: 6, name: "gap, KL(q ‖ posterior)" },
    { kind: "rule", y: v.bound, tone: 3, dash: "3 3", width: 1 },
  ]);
  stage.readings([
    ["steps", v.step],
    ["ELBO(q, θ)", v.bound],
    ["+ KL(q ‖ posterior), the gap", v.gap],
    ["= ln p(x), EM", v.log_p, "total"],
    ["ln p(x), gradient EM", v.log_p_gradient],
    ["ln p(x) after 20 steps of EM", v.history.at(-1)],
  ]);
}
