/** The page of the server: its list of screens, and the screen that the address names. */

import { openAsk } from "studio/ask.js";
import { el } from "studio/build.js";
import { openExplainer } from "studio/screen.js";
import { asked, fromServer } from "studio/source.js";
import { startTheme } from "studio/theme.js";
import { openWatch } from "studio/watch.js";

const source = fromServer();
const SCREENS = { ask: ["Ask a model", openAsk], watch: ["Watch a fit", openWatch] };

function menu(explainers, isWatched) {
  const groups = Map.groupBy(explainers, (explainer) => explainer.group);
  const link = (address, title) => el("a", { href: `#${address}` }, title);
  const own = Object.entries(SCREENS).filter(([name]) => name !== "watch" || isWatched);
  return [
    el("h2", {}, "Your models"), ...own.map(([name, [title]]) => link(name, title)),
    ...[...groups].flatMap(([group, members]) => [el("h2", {}, group), ...members.map((each) => link(each.name, each.title))]),
  ];
}

function show(explainers) {
  const name = location.hash.slice(1) || explainers[0].name;
  const list = document.querySelector("#list");
  for (const link of list.querySelectorAll("a")) {
    if (link.hash === `#${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const host = el("div", { class: "host", "data-screen": name });
  document.querySelector("#content").replaceChildren(host);
  if (SCREENS[name]) {
    const [title, open] = SCREENS[name];
    document.title = `${title} – jensen studio`;
    return open(host);
  }
  const found = explainers.find((explainer) => explainer.name === name);
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
    const [{ explainers }, files] = await Promise.all([asked("explainers"), asked("files")]);
    document.querySelector("#list").replaceChildren(...menu(explainers, files.is_watched));
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
