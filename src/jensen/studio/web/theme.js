/** Light or dark: as the system has it, until the button is pressed. */

export function startTheme(button) {
  const root = document.documentElement;
  button.addEventListener("click", () => {
    const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = isDark ? "light" : "dark";
  });
}
