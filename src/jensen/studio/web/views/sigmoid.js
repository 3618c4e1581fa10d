/** Two Gaussians and the sigmoid. */

export function draw(stage, v) {
  const top = Math.max(...v.density) * 1.15;
  stage.chart("density", { title: "Densities", x: "x", y: "density", ylim: [0, top], isWhole: true, ratio: 0.27 }, [
    { kind: "area", x: v.axis, y: v.parts[0], tone: 1, name: "π N(x; μ₁, σ²)" },
    { kind: "area", x: v.axis, y: v.parts[1], tone: 2, name: "(1−π) N(x; μ₂, σ²)" },
    { kind: "line", x: v.axis, y: v.density, tone: "ink", name: "p(x), their sum" },
    { kind: "rule", x: v.x, tone: "grey", dash: "4 3", width: 1.5, name: "the number observed" },
  ]);
  stage.chart("posterior", { title: "Posterior probability of the first Gaussian", x: "x", y: "P(z=1 | x)", ylim: [0, 1], isWhole: true, ratio: 0.27 }, [
    { kind: "line", x: v.axis, y: v.posterior, tone: 1 },
    { kind: "rule", x: v.x, tone: "grey", dash: "4 3", width: 1.5 },
    { kind: "points", x: [v.x], y: [v.posterior_here], tone: 1, r: 6 },
  ]);
  stage.readings([
    ["π N(x; μ₁, σ²)", v.joint[0]],
    ["(1−π) N(x; μ₂, σ²)", v.joint[1]],
    ["ln p(x)", v.log_p],
    ["P(z=1 | x)", v.posterior_here],
    ["a", v.a],
    ["b", v.b],
  ]);
}
