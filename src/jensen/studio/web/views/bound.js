/** The bound over all q, and the chord of the logarithm. */

export function draw(stage, v) {
  const [q] = v.q;
  const low = Math.min(...v.curve);
  stage.chart("bound", { title: "The bound for every q", x: "q(1)", y: "nats", xlim: [0, 1], ylim: [low - 0.1, v.log_p + 0.25] }, [
    { kind: "area", x: v.axis, y: v.axis.map(() => v.log_p), low: v.curve, tone: 2, opacity: 0.18, name: "gap, KL(q ‖ posterior)" },
    { kind: "line", x: v.axis, y: v.curve, tone: 1, name: "ELBO(q)" },
    { kind: "rule", y: v.log_p, tone: "ink", dash: "5 3", width: 1.5, name: "ln p(x)" },
    { kind: "rule", x: v.posterior[0], tone: 3, dash: "2 3", width: 1.5, name: "the posterior" },
    { kind: "line", x: [q, q], y: [v.bound, v.log_p], tone: 2, width: 4 },
    { kind: "points", x: [q], y: [v.bound], tone: 1, r: 6 },
  ]);
  const most = Math.max(...v.weights, 2 * v.evidence) * 1.05;
  const least = Math.min(...v.weights);
  const axis = Array.from({ length: 120 }, (_, i) => least * 0.8 * (most / (least * 0.8)) ** (i / 119));
  stage.chart("chord", { title: "The mean of logarithms is below the logarithm of the mean", x: "weight p(x,z)/q(z)", y: "its logarithm", xlim: [0, most] }, [
    { kind: "line", x: axis, y: axis.map(Math.log), tone: "ink", name: "ln" },
    { kind: "line", x: v.weights, y: v.weights.map(Math.log), tone: 1, name: "chord between z = 1 and z = 2" },
    { kind: "line", x: [v.evidence, v.evidence], y: [v.bound, v.log_p], tone: 2, width: 4, name: "gap, at the mean weight p(x)" },
    { kind: "points", x: v.weights, y: v.weights.map(Math.log), tone: 1, r: 5 },
    { kind: "points", x: [v.evidence], y: [v.bound], tone: 1, r: 6 },
  ]);
  stage.readings([
    ["E_q ln p(x|z)", v.reconstruction],
    ["− KL(q ‖ prior)", -v.kl_prior],
    ["= ELBO(q)", v.bound, "total"],
    ["+ KL(q ‖ posterior), the gap", v.gap],
    ["= ln p(x)", v.log_p, "total"],
    ["P(z=1 | x)", v.posterior[0]],
    ["L_k, bound of k draws", v.many],
  ]);
}
