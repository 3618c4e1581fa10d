/** Where values come from: the server that computes them, or a page that has them stored. */

/** What the server did not answer, in one line. */
export class Failure extends Error {}

/** POST JSON to the server; its error becomes a Failure. */
export async function asked(path, body = null) {
  const request = body === null ? {} : { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  let reply;
  try {
    reply = await fetch(`api/${path}`, request);
  } catch {
    throw new Failure("The server does not answer. Start it again with: jensen studio");
  }
  const answer = await reply.json();
  if (!reply.ok) throw new Failure(answer.error);
  return answer;
}

/** Values computed by the server. */
export function fromServer() {
  return { isStill: false, values: (name, parameters) => asked(`explain/${name}`, parameters) };
}

/**
 * Values stored in the page: `states` has the number of a value for every combination of stops, in their order, and
 * `pool` has each different value once.
 */
export function fromStore({ names, keys, states, pool }) {
  const places = new Map(keys.map((key, i) => [JSON.stringify(key), i]));
  return {
    isStill: true,
    values: async (_, parameters) => {
      const place = places.get(JSON.stringify(names.map((name) => parameters[name])));
      if (place === undefined) throw new Failure("This page has no values for these settings; jensen studio computes them");
      return Object.fromEntries(Object.entries(states[place]).map(([name, number]) => [name, pool[number]]));
    },
  };
}
