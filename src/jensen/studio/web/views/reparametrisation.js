/** Two estimates of the same gradient. */

export function draw(stage, v) {
  const low = Math.min(...v.f);
  const high = Math.max(...v.f);
  const room = 0.12 * (high - low || 1);
  const scale = (high - low || 1) / Math.max(...v.density);
  stage.chart("f", { title: "f, q and draws from q", x: "z", y: "f(z)", xlim: [-5, 5], ylim: [low - room, high + room], isWhole: true, ratio: 0.26 }, [
    { kind: "area", x: v.axis, y: v.density.map((d) => low + d * scale * 0.9), low: v.axis.map(() => low), tone: 4, name: "q, its density (scaled)" },
    { kind: "line", x: v.axis, y: v.f, tone: "ink", name: "f" },
    { kind: "points", x: v.z, y: v.f_of_z, tone: 1, r: 3, opacity: 0.7, name: "draws" },
  ]);
  const reach = Math.max(...[...v.score, ...v.path].map((g) => Math.abs(g - v.exact))) * 1.05;
  const jitter = (i) => 0.32 * Math.sin(12.9898 * (i + 1));
  stage.chart("estimates", { title: "Estimates from single draws", x: "gradient", y: "", xlim: [v.exact - reach, v.exact + reach], ylim: [0.3, 2.7], yticks: false }, [
    { kind: "rule", x: v.exact, tone: "ink", dash: "5 3", width: 1.5, name: "exact" },
    { kind: "points", x: v.score, y: v.score.map((_, i) => 2 + jitter(i)), tone: 2, r: 3, opacity: 0.6, name: "score function" },
    { kind: "points", x: v.path, y: v.path.map((_, i) => 1 + jitter(i)), tone: 1, r: 3, opacity: 0.6, name: "reparametrised" },
  ]);
  stage.chart("running", { title: "Mean of the first n draws", x: "log₁₀ n", y: "gradient" }, [
    { kind: "rule", y: v.exact, tone: "ink", dash: "5 3", width: 1.5 },
    { kind: "line", x: v.counts.map(Math.log10), y: v.running.score, tone: 2 },
    { kind: "line", x: v.counts.map(Math.log10), y: v.running.path, tone: 1 },
  ]);
  stage.readings([
    ["exact gradient", v.exact],
    [`score function, mean of ${v.n_draws}`, v.mean_score],
    [`reparametrised, mean of ${v.n_draws}`, v.mean_path],
    ["standard deviation, score function", v.std_score],
    ["standard deviation, reparametrised", v.std_path],
  ]);
}
