/** Topics as pictures, and the shares of one document. */

import { shown } from "studio/build.js";

export function draw(stage, v) {
  const shape = [5, 5];
  stage.images("topics", {
    title: `${v.topics.length} ${v.topics.length === 1 ? "topic" : "topics"}, most frequent first`, shape, limits: [0, 0.22], isWhole: true, size: 5,
    tiles: v.topics.map((values, k) => ({ values, caption: `topic ${k + 1}`, label: `Topic ${k + 1}: probability of each of the 25 words` })),
    note: "Each cell is a word; the darker, the more probable.",
  });
  const top = Math.max(...v.document, ...v.expected);
  stage.images("document", {
    title: "One document", shape, limits: [0, top], size: 8,
    tiles: [{ values: v.document, caption: "its words, counted" }, { values: v.expected, caption: "expected from its shares" }],
  });
  const places = v.shares.map((_, k) => k + 1);
  stage.chart("shares", { title: "Shares of the topics in this document", x: "topic", y: "share", xlim: [0.4, v.shares.length + 0.6], ylim: [0, 1], xticks: places.map((k) => [k, String(k)]) }, [
    { kind: "bars", x: places, y: v.shares, tone: 1 },
  ]);
  stage.readings([
    ["reconstruction", v.reconstruction],
    ...Object.entries(v.kl).map(([name, value]) => [`− KL, ${name}`, -value]),
    ["= bound on ln p(document), nats", v.bound, "total"],
    ["perplexity of held-out documents", v.completion],
    ["rows and columns found, of 10", v.found],
    ["largest probability of a word", shown(v.largest)],
  ]);
}
