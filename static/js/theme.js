// Sets the theme before anything is drawn: what was chosen here, else what the system wants.
(() => {
  "use strict";
  const KEY = "pagewarden-theme";
  const system = window.matchMedia("(prefers-color-scheme: dark)");

  const stored = () => {
    try {
      return window.localStorage.getItem(KEY) || "system";
    } catch {
      return "system"; // Storage can be closed by the browser; the system's choice then holds.
    }
  };

  const apply = (choice) => {
    const theme = choice === "system" ? (system.matches ? "dark" : "light") : choice;
    if (document.documentElement.dataset.bsTheme === theme) return;
    document.documentElement.dataset.bsTheme = theme;
    document.dispatchEvent(new CustomEvent("pw:theme"));
  };

  apply(stored());
  system.addEventListener("change", () => apply(stored()));

  document.addEventListener("DOMContentLoaded", () => {
    const select = document.querySelector("[data-theme-choice]");
    if (!select) return;
    select.closest("[hidden]")?.removeAttribute("hidden");
    select.value = stored();
    select.addEventListener("change", () => {
      try {
        window.localStorage.setItem(KEY, select.value);
      } catch {
        // Without storage the choice lasts for this page.
      }
      apply(select.value);
    });
  });
})();
