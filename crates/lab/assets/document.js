// Magnifies charts: drag across one of them, or use the buttons. All charts with the same axis from left to right move
// together, by changing the view box of what is already drawn.
"use strict";
(function () {
  const WIDTH = 1000000, HEIGHT = 4000, NARROWEST = 200;

  function ticks(low, high) {
    const raw = (high - low) / 5, magnitude = Math.pow(10, Math.floor(Math.log10(raw)));
    const step = [1, 2, 5, 10].map((factor) => factor * magnitude).find((size) => size >= raw * 0.999);
    const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9)), out = [];
    for (let index = Math.ceil(low / step - 1e-9); index * step <= high * (1 + 1e-9); index++) {
      out.push({ at: (index * step - low) / (high - low) * 100, label: (index * step).toFixed(decimals) });
    }
    return out;
  }

  function start(groups) {
    const all = (selector) => groups.flatMap((group) => Array.from(group.querySelectorAll(selector)));
    const first = Number(groups[0].dataset.low), span = Number(groups[0].dataset.high) - first;
    const areas = all(".area.time");
    if (!(span > 0) || areas.length === 0) return;
    let left = 0, width = WIDTH;

    function show(newLeft, newWidth) {
      width = Math.min(WIDTH, Math.max(NARROWEST, newWidth));
      left = Math.min(WIDTH - width, Math.max(0, newLeft));
      const low = first + left / WIDTH * span, high = first + (left + width) / WIDTH * span, marks = ticks(low, high);
      for (const area of areas) {
        area.querySelector("svg").setAttribute("viewBox", `${left} 0 ${width} ${HEIGHT}`);
        area.parentElement.querySelector(".ticks-x").replaceChildren(...marks.map((mark) => {
          const label = document.createElement("span");
          label.style.left = `${mark.at}%`;
          label.textContent = mark.label;
          return label;
        }));
      }
      const digits = Math.max(1, 3 - Math.floor(Math.log10(high - low)));
      const text = width === WIDTH ? "Drag across a chart to magnify it" : `${low.toFixed(digits)} to ${high.toFixed(digits)}`;
      for (const status of all(".status")) status.textContent = text;
    }

    function drag(area) {
      let from = null, mark = null;
      const place = (event) => {
        const box = area.getBoundingClientRect();
        return Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
      };
      const stop = () => { if (mark) mark.remove(); from = mark = null; };
      area.addEventListener("pointerdown", (event) => {
        if (event.button !== 0) return;
        event.preventDefault();
        stop();
        from = place(event);
        mark = area.appendChild(document.createElement("div"));
        mark.className = "selection";
        area.setPointerCapture(event.pointerId);
      });
      area.addEventListener("pointermove", (event) => {
        if (from === null) return;
        const to = place(event);
        mark.style.left = `${Math.min(from, to) * 100}%`;
        mark.style.width = `${Math.abs(to - from) * 100}%`;
      });
      area.addEventListener("pointerup", (event) => {
        if (from === null) return;
        const to = place(event), low = Math.min(from, to), high = Math.max(from, to);
        stop();
        if (high - low > 0.01) show(left + low * width, (high - low) * width);
      });
      area.addEventListener("pointercancel", stop);
      area.addEventListener("dblclick", () => show(0, WIDTH));
    }

    const moves = {
      in: () => show(left + width / 4, width / 2),
      out: () => show(left - width / 2, width * 2),
      left: () => show(left - width / 2, width),
      right: () => show(left + width / 2, width),
      all: () => show(0, WIDTH),
    };
    for (const button of all("button")) button.addEventListener("click", moves[button.dataset.do]);
    areas.forEach(drag);
    for (const controls of all(".controls")) controls.hidden = false;
    for (const group of groups) group.classList.add("zoomable");
    show(0, WIDTH);
  }

  const byAxis = new Map();
  for (const group of document.querySelectorAll(".zoom")) {
    const axis = `${group.dataset.low} ${group.dataset.high}`;
    byAxis.set(axis, [...(byAxis.get(axis) || []), group]);
  }
  byAxis.forEach(start);
})();
