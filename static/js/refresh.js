// Swaps without moving anything under the hand: focus, open details and scroll stay; what changed
// is marked for a moment and said once; a page that no longer hears the server says how old it is.
(() => {
  "use strict";
  const MARK_MS = 1600;
  const LOST_AFTER_MS = 15000;
  const seen = new Map();
  let kept = null;
  let heardAt = Date.now();

  // Two answers that differ in the form's token alone are the same answer.
  const plain = (text) => text.replace(/name="csrfmiddlewaretoken" value="[^"]*"/g, "");

  const states = () => {
    const found = new Map();
    for (const element of document.querySelectorAll("[id][data-state]")) {
      found.set(element.id, element.dataset.state);
    }
    return found;
  };

  const say = (text) => {
    const live = document.getElementById("live");
    if (live && text && live.textContent !== text) live.textContent = text;
  };

  // A person who types must not lose the text: their form waits for the next refresh.
  const isBusy = (target) => {
    const focused = document.activeElement;
    return (
      target.contains(focused) &&
      ["INPUT", "TEXTAREA", "SELECT"].includes(focused.tagName) &&
      focused.type !== "search"
    );
  };

  const hasText = (target) =>
    [...target.querySelectorAll("textarea, input[type=text]")].some(
      (field) => field.value !== field.defaultValue,
    );

  document.addEventListener("htmx:beforeSwap", (event) => {
    const { xhr, target } = event.detail;
    const answer = plain(event.detail.serverResponse || "");
    const asked = event.detail.pathInfo?.requestPath || "";
    if (xhr.responseURL && asked && new URL(xhr.responseURL).pathname !== asked.split("?")[0]) {
      // The session is over and the answer is the sign-in page: go there, not into a fragment.
      event.detail.shouldSwap = false;
      window.location.reload();
      return;
    }
    if (xhr.status >= 400) return;
    heardAt = Date.now();
    const isOver = xhr.status === 286;
    if (!isOver && (seen.get(target.id) === answer || isBusy(target) || hasText(target))) {
      event.detail.shouldSwap = false;
      return;
    }
    seen.set(target.id, answer);
    const focused = document.activeElement;
    kept = {
      focus: target.contains(focused) ? focused.id : "",
      open: [...target.querySelectorAll("details[id][open]")].map((one) => one.id),
      states: states(),
      top: window.scrollY,
    };
  });

  const putBack = () => {
    for (const id of kept.open) document.getElementById(id)?.setAttribute("open", "");
    if (kept.focus) document.getElementById(kept.focus)?.focus({ preventScroll: true });
    window.scrollTo(window.scrollX, kept.top);
  };

  document.addEventListener("htmx:afterSwap", () => {
    if (kept) putBack();
  });

  // Settling gives every element its new attributes once more, so marks and open details come last.
  document.addEventListener("htmx:afterSettle", () => {
    if (!kept) return;
    putBack();
    const said = [];
    for (const [id, state] of states()) {
      if (kept.states.get(id) === state) continue;
      const element = document.getElementById(id);
      element.classList.add("is-changed");
      window.setTimeout(() => element.classList.remove("is-changed"), MARK_MS);
      if (element.dataset.says) said.push(element.dataset.says);
    }
    say(said.join(". "));
    kept = null;
  });

  const polls = () => document.querySelector("[hx-trigger*='every']");

  const check = () => {
    const note = document.getElementById("lost");
    if (!note) return;
    const silent = Date.now() - heardAt;
    const isLost = Boolean(polls()) && silent > LOST_AFTER_MS && document.visibilityState === "visible";
    note.hidden = !isLost;
    if (isLost) note.textContent = `Pagewarden does not answer. This page is ${Math.round(silent / 1000)} s old.`;
  };

  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "visible") heardAt = Date.now();
  });
  document.addEventListener("htmx:afterRequest", (event) => {
    if (event.detail.successful) heardAt = Date.now();
  });
  window.setInterval(check, 5000);
})();
