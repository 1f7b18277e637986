// Works without a mouse: "/" filters the list, "g" and a letter go somewhere, "?" shows the keys.
(() => {
  "use strict";
  const GO_WITHIN_MS = 1500;
  let goUntil = 0;

  const isTyping = (element) =>
    element instanceof HTMLElement &&
    (element.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(element.tagName));

  const filter = (input) => {
    const wanted = input.value.trim().toLowerCase();
    const rows = document.querySelectorAll(`${input.dataset.filters} [data-row]`);
    let shown = 0;
    for (const row of rows) {
      row.hidden = wanted !== "" && !row.textContent.toLowerCase().includes(wanted);
      if (!row.hidden) shown += 1;
    }
    const says = document.getElementById("live");
    if (says) says.textContent = wanted ? `${shown} of ${rows.length} shown` : "";
  };

  const act = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    if (Date.now() < goUntil) {
      goUntil = 0;
      const link = document.querySelector(`[data-go="${CSS.escape(event.key.toLowerCase())}"]`);
      if (link) {
        event.preventDefault();
        link.click();
      }
      return;
    }
    if (event.key === "g") {
      goUntil = Date.now() + GO_WITHIN_MS;
    } else if (event.key === "/") {
      const input = document.querySelector("[data-filters]");
      if (input) {
        event.preventDefault();
        input.focus();
      }
    } else if (event.key === "?") {
      event.preventDefault();
      document.getElementById("keys")?.showModal();
    }
  };

  document.addEventListener("keydown", act);
  document.addEventListener("input", (event) => {
    if (event.target instanceof HTMLInputElement && event.target.dataset.filters) filter(event.target);
  });
  document.addEventListener("htmx:afterSettle", () => {
    const input = document.querySelector("[data-filters]");
    if (input?.value) filter(input);
  });
  document.addEventListener("click", (event) => {
    if (event.target instanceof Element && event.target.closest("[data-shows-keys]")) {
      document.getElementById("keys")?.showModal();
    }
  });

  // A dangerous act is confirmed by typing what it acts on; the server asks again.
  const hold = (input) => {
    const button = input.form?.querySelector("[data-needs-confirm]");
    if (button) button.disabled = input.value.trim() !== input.dataset.confirms;
  };
  const holdAll = () => document.querySelectorAll("[data-confirms]").forEach(hold);

  document.addEventListener("input", (event) => {
    if (event.target instanceof HTMLInputElement && event.target.dataset.confirms) hold(event.target);
  });
  document.addEventListener("DOMContentLoaded", holdAll);
  document.addEventListener("htmx:afterSettle", holdAll);
})();
