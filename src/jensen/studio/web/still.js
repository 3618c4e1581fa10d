/** A static page: one explainer, with the values that are stored in the page. */

import { openExplainer } from "studio/screen.js";
import { fromStore } from "studio/source.js";
import { startTheme } from "studio/theme.js";

const { explainer, values, home } = JSON.parse(document.querySelector("#data").textContent);
startTheme(document.querySelector("#theme"));
openExplainer(document.querySelector(".host"), explainer, fromStore(values), home);
