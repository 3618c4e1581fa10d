/** Bias, variance and risk of ridge regression. */

export function draw(stage, v) {
  const top = 1.25 * Math.max(v.least_squares, v.risk_here);
  stage.chart("risk", { title: "Bias², variance and risk of the coefficients", x: "log₁₀ λ", y: "squared error", xlim: [-2, 3], ylim: [0, top], isWhole: true }, [
    { kind: "rule", y: v.least_squares, tone: "grey", dash: "5 3", width: 1.5, name: "least squares, λ = 0" },
    { kind: "line", x: v.axis, y: v.bias2, tone: 2, name: "bias²" },
    { kind: "line", x: v.axis, y: v.variance, tone: 1, name: "variance" },
    { kind: "line", x: v.axis, y: v.risk, tone: "ink", width: 2.5, name: "risk, their sum" },
    { kind: "rule", x: Math.log10(v.chosen), tone: 3, dash: "4 3", width: 1.5, name: "λ chosen by the evidence" },
    { kind: "rule", x: v.power, tone: "grey", width: 1 },
    { kind: "points", x: [v.power, v.power, v.power], y: [v.bias2_here, v.variance_here, v.risk_here], tones: [2, 1, "ink"], r: 5 },
  ]);
  const places = v.beta.map((_, j) => j + 1);
  const shift = (by) => places.map((j) => j + by);
  stage.chart("coefficients", { title: "Coefficients from one sample of y", x: "feature", y: "coefficient", xlim: [0.4, v.beta.length + 0.6], xticks: places.map((j) => [j, String(j)]), isWhole: true, ratio: 0.25 }, [
    { kind: "rule", y: 0, tone: "grey", width: 1 },
    { kind: "points", x: shift(-0.15), y: v.beta, tone: "ink", r: 5, name: "true" },
    { kind: "points", x: shift(0), y: v.unpenalised, tone: "grey", r: 4, name: "least squares" },
    { kind: "points", x: shift(0.15), y: v.coefficients, tone: 1, r: 5, name: "ridge, at this λ" },
  ]);
  stage.readings([
    ["λ", v.lambda],
    ["bias²", v.bias2_here],
    ["+ variance", v.variance_here],
    ["= risk", v.risk_here, "total"],
    ["risk of least squares", v.least_squares],
    ["least risk", v.best_risk],
    ["at λ", v.best],
    ["λ chosen by the evidence", v.chosen],
  ]);
}
