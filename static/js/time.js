// Adds the reader's local time to every moment; the text stays UTC.
(() => {
  "use strict";
  const shape = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });

  const localise = (root) => {
    for (const time of root.querySelectorAll("time[datetime]:not([data-local])")) {
      const moment = new Date(time.dateTime);
      if (Number.isNaN(moment.getTime())) continue;
      time.title = `${time.title}\n${shape.format(moment)} here`;
      time.dataset.local = "";
    }
  };

  document.addEventListener("DOMContentLoaded", () => localise(document));
  document.addEventListener("htmx:afterSettle", () => localise(document));
})();
