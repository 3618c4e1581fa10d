/** The page of the server: its list of screens, and the screen that the address names. */

import { el } from "studio/build.js";
import { openExplainer } from "studio/screen.js";
import { asked, fromServer } from "studio/source.js";
import { startTheme } from "studio/theme.js";

const source = fromServer();

function menu(explainers) {
  const groups = Map.groupBy(explainers, (explainer) => explainer.group);
  const link = (address, title) => el("a", { href: `#${address}` }, title);
  return [...groups].flatMap(([group, members]) => [
    el("h2", {}, group), ...members.map((each) => link(each.name, each.title)),
  ]);
}

function show(explainers) {
  const name = location.hash.slice(1) || explainers[0].name;
  const list = document.querySelector("#list");
  for (const link of list.querySelectorAll("a")) {
    if (link.hash === `#${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const found = explainers.find((explainer) => explainer.name === name);
  const host = el("div", { class: "host" });
  document.querySelector("#content").replaceChildren(host);
  if (!found) return host.append(el("p", { class: "error" }, `There is no screen ${name}.`));
  document.title = `${found.title} – jensen studio`;
  return openExplainer(host, found, source);
}

async function start() {
  startTheme(document.querySelector("#theme"));
  const narrow = matchMedia("(max-width: 760px)");
  const menuBox = document.querySelector("#menu");
  menuBox.open = !narrow.matches;
  narrow.addEventListener("change", () => { menuBox.open = !narrow.matches; });
  try {
    const { explainers } = await asked("explainers");
    document.querySelector("#list").replaceChildren(...menu(explainers));
    addEventListener("hashchange", () => {
      menuBox.open = !narrow.matches;
      show(explainers);
      document.querySelector("#content").focus();
      scrollTo(0, 0);
    });
    await show(explainers);
  } catch (error) {
    document.querySelector("#content").replaceChildren(el("p", { class: "error" }, error.message));
  }
}

start();
