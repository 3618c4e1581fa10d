/** Customers, stores and a depot. */

export function draw(stage, v, set) {
  const moved = (i, point) => set("points", v.points.map((each, j) => (i === j ? point : each)));
  const shares = v.labels.map((label) => v.stores.map((_, k) => (k === label ? 1 : 0)));
  const ways = v.points.map((point, i) => [point, v.stores[v.labels[i]], v.labels[i]]);
  const lines = v.stores.map((_, k) => {
    const own = ways.filter(([, , label]) => label === k);
    return { kind: "segments", from: own.map(([a]) => a), to: own.map(([, b]) => b), tone: k + 1, width: 1, opacity: 0.5 };
  });
  const supply = { kind: "segments", from: v.stores.map(() => v.depot), to: v.stores, tone: "ink", width: 1.5, dash: "4 4" };
  stage.chart("map", {
    title: "Customers (dots) and stores (crosses)", equal: true, isWhole: true, x: "east", y: "north", xlim: [-5.5, 5.5], ylim: [-4, 3.6],
    describe: "Customers in the plane, each joined to its store", drag: { points: v.points, moved, shares, label: "Customers" },
    note: v.has_depot ? "The square is the depot; dashed lines are its ways to the stores." : "",
  }, [
    ...lines,
    ...(v.has_depot ? [supply, { kind: "text", x: v.depot[0], y: v.depot[1], text: "■ depot", anchor: "start", dx: -5, dy: 4 }] : []),
    ...v.stores.map((store, k) => ({ kind: "crosses", x: [store[0]], y: [store[1]], tone: k + 1, r: 8 })),
  ]);
  const top = Math.max(...v.costs) * 1.08;
  stage.chart("cost", { title: "Cost after every step", x: "steps", y: "cost", ylim: [0, top], xlim: [-0.3, 8.3] }, [
    { kind: "line", x: v.costs.map((_, i) => i), y: v.costs, tone: 1 },
    { kind: "points", x: v.costs.map((_, i) => i), y: v.costs, tone: 1, r: 4 },
  ]);
  stage.chart("sizes", { title: "Customers of each store", x: "store", y: "customers", ylim: [0, Math.max(...v.sizes) * 1.1], xlim: [0.4, v.sizes.length + 0.6], xticks: v.sizes.map((_, k) => [k + 1, String(k + 1)]) }, [
    { kind: "bars", x: v.sizes.map((_, k) => k + 1), y: v.sizes, tones: v.sizes.map((_, k) => k + 1) },
  ]);
  stage.readings([
    ["squared ways of the customers", v.customers],
    ["+ λ × squared ways of the depot", v.supply],
    ["= cost", v.costs.at(-1), "total"],
    ["bound on ln p, nats per customer", v.bound],
  ]);
}
