// Draws every figure that the page carries as JSON; again when the theme or the fragment changes.
(() => {
  "use strict";
  const drawn = new Map();

  // A figure names colours by the page's own variables: "var(--pw-bar)".
  const resolve = (value, probe) => {
    if (typeof value === "string" && value.startsWith("var(")) {
      probe.style.color = value;
      return window.getComputedStyle(probe).color;
    }
    if (Array.isArray(value)) return value.map((one) => resolve(one, probe));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, resolve(one, probe)]));
    }
    return value;
  };

  // What a figure leaves open follows the theme.
  const dress = (figure, ink, grid, accent) => {
    for (const [name, part] of Object.entries(figure.layout)) {
      if (!/^[xy]axis/.test(name)) continue;
      Object.assign(part, { gridcolor: grid, zerolinecolor: grid, linecolor: grid, automargin: part.visible !== false, ...part });
    }
    for (const shape of figure.layout.shapes || []) shape.line = { color: ink, ...shape.line };
    for (const trace of figure.data) trace.marker = { color: accent, ...trace.marker };
  };

  const draw = (element) => {
    const source = document.getElementById(element.dataset.chart);
    if (!source || !window.Plotly) return;
    const probe = document.body.appendChild(document.createElement("i"));
    const figure = resolve(JSON.parse(source.textContent), probe);
    const ink = resolve("var(--pw-graph)", probe);
    figure.layout ??= {};
    dress(figure, ink, resolve("var(--pw-line)", probe), resolve("var(--pw-accent)", probe));
    probe.remove();
    const layout = {
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      margin: { l: 64, r: 16, t: 8, b: 40 },
      height: element.clientHeight || undefined,
      ...figure.layout,
      font: {
        family: window.getComputedStyle(document.body).fontFamily,
        size: 12,
        color: ink,
        ...figure.layout?.font,
      },
    };
    const config = { displayModeBar: false, responsive: true, staticPlot: "static" in element.dataset };
    window.Plotly.react(element, figure.data, layout, config);
    drawn.set(element.id, { text: source.textContent, element });
  };

  const drawAll = () => {
    for (const element of document.querySelectorAll("[data-chart]")) {
      const last = drawn.get(element.id);
      const text = document.getElementById(element.dataset.chart)?.textContent;
      if (last && last.text === text && last.element !== element && !last.element.isConnected) {
        // The same figure came again with its fragment: the drawing that stood there goes back.
        element.replaceWith(last.element);
      } else if (!last || last.element !== element || last.text !== text) {
        draw(element);
      }
    }
  };

  document.addEventListener("DOMContentLoaded", drawAll);
  document.addEventListener("htmx:afterSwap", drawAll);
  document.addEventListener("pw:theme", () => {
    for (const element of document.querySelectorAll("[data-chart]")) draw(element);
  });
})();
