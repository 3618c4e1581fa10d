/** The terms of a diffusion's bound. */

export function draw(stage, v) {
  const width = 1 / v.groups.length;
  const places = v.groups.map((_, i) => (i + 0.5) * width);
  const low = Math.min(0, v.first, v.entropy) * 1.1;
  const sums = [0, v.last, v.last + v.middle, v.total];
  const high = Math.max(...sums, v.entropy) * 1.08 + 0.1;
  stage.chart("groups", { title: "L₁ … L₍T₋₁₎, summed over twentieths of the chain", x: "t / T, from data to noise", y: "nats", xlim: [0, 1], isWhole: true, ratio: 0.28 }, [
    { kind: "bars", x: places, y: v.groups, tone: 1, wide: 0.9 },
  ]);
  stage.chart("sum", { title: "From the terms to the bound", y: "nats per number", ylim: [Math.min(low, ...sums) - 0.2, high], xlim: [0.4, 4.6], xticks: [[1, "L_T"], [2, "+ Σ L"], [3, "+ L₀"], [4, "−ln p"]] }, [
    { kind: "segments", from: [[1, 0]], to: [[1, sums[1]]], tone: 4, width: 22 },
    { kind: "segments", from: [[2, sums[1]]], to: [[2, sums[2]]], tone: 1, width: 22 },
    { kind: "segments", from: [[3, sums[2]]], to: [[3, sums[3]]], tone: 3, width: 22 },
    { kind: "segments", from: [[4, v.entropy]], to: [[4, v.total]], tone: 2, width: 22, name: "gap" },
    { kind: "rule", y: v.total, tone: "ink", dash: "4 3", width: 1.5, name: "bound" },
    { kind: "rule", y: v.entropy, tone: "grey", dash: "2 3", width: 1.5, name: "−E ln p(x)" },
    { kind: "rule", y: 0, tone: "grey", width: 1 },
  ]);
  stage.chart("signal", { title: "Schedule", x: "t / T", y: "ᾱ", xlim: [0, 1], ylim: [0, 1] }, [
    { kind: "line", x: v.share, y: v.signal, tone: 1, name: "ᾱ, share of signal" },
  ]);
  stage.readings([
    ["L_T", v.last],
    ["+ Σ L₍ₜ₋₁₎", v.middle],
    ["+ L₀", v.first],
    ["= bound on −ln p(x)", v.total, "total"],
    ["−E ln p(x), the entropy", v.entropy],
    ["gap", v.gap],
    ["T", v.n_levels],
  ]);
}
