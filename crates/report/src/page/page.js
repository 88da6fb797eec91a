// Adds to the drawings that are there: a cursor with the values below it, and zoom along. Without this script the page says the same.
"use strict";
(() => {
  // The plot within each drawing, in its own units.
  const LEFT = 56, RIGHT = 712, GROUPS = 400;
  const SVG = "http://www.w3.org/2000/svg";

  // The CSV of a chart: the names of its columns, and the columns.
  const read = (text) => {
    const rows = text.trim().split("\n");
    const names = [];
    for (const cell of rows[0].matchAll(/"((?:[^"]|"")*)"|([^,]+)/g)) {
      names.push(cell[1] === undefined ? cell[2] : cell[1].replaceAll('""', '"'));
    }
    const columns = names.map(() => []);
    for (const row of rows.slice(1)) {
      const cells = row.split(",");
      columns.forEach((column, at) => column.push(cells[at] ? Number(cells[at]) : null));
    }
    return { names, columns };
  };

  const save = (figure, text) => {
    const link = document.createElement("a");
    link.textContent = "Save as CSV";
    link.download = figure.id + ".csv";
    link.href = "#" + figure.id;
    link.addEventListener("click", () => {
      link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
    });
    figure.querySelector(".save").append(link);
  };

  // A tick's label, as the drawings have it: thousands as k, M, G.
  const short = (value) => {
    const [size, letter] = [[1e9, "G"], [1e6, "M"], [1e3, "k"]].find(([size]) => Math.abs(value) >= size) ?? [1, ""];
    return Number((value / size).toPrecision(5)) + letter;
  };

  const element = (name, attributes) => {
    const one = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) one.setAttribute(key, value);
    return one;
  };

  // A line between two seconds from its values: of each group of neighbours the lowest and the highest, a gap where there is none.
  const line = (seconds, values, [from, to], x, y) => {
    let first = seconds.findIndex((second) => second >= from);
    let last = seconds.findLastIndex((second) => second <= to);
    [first, last] = [Math.max(0, first - 1), Math.min(seconds.length - 1, last + 1)];
    const size = Math.max(1, Math.ceil((last - first + 1) / GROUPS));
    let path = "", isDown = false;
    for (let at = first; at <= last; at += size) {
      const group = [];
      for (let one = at; one < at + size && one <= last; one++) if (values[one] !== null) group.push(one);
      if (group.length === 0) { isDown = false; continue; }
      const by = (isBetter) => group.reduce((best, one) => (isBetter(values[one], values[best]) ? one : best));
      const ends = [...new Set([by((a, b) => a < b), by((a, b) => a > b)])].sort((a, b) => a - b);
      for (const one of ends) {
        path += (isDown ? "L" : "M") + x(seconds[one]).toFixed(2) + " " + y(values[one]).toFixed(1);
        isDown = true;
      }
      // A point without a neighbour has no length.
      if (ends.length === 1 && group.length < 2 && values[at - 1] == null && values[at + size] == null) path += "h0.01";
    }
    return path;
  };

  // Steps of 1, 2 or 5 that give about six ticks.
  const ticks = ([from, to]) => {
    const rough = (to - from) / 5, power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((digit) => digit * power >= rough * 0.999);
    const all = [];
    for (let at = Math.ceil(from / step); at * step <= to * 1.0001; at++) all.push(Number((at * step).toPrecision(12)));
    return all;
  };

  class Chart {
    constructor(figure) {
      this.figure = figure;
      this.text = figure.querySelector(".csv").textContent;
      this.svg = figure.querySelector(".plot > svg");
      this.plots = [...figure.querySelectorAll("svg.along")];
      this.box = this.plots.at(-1).viewBox.baseVal;
      this.top = this.box.y;
      this.height = this.box.height;
      this.ticks = [...this.svg.querySelectorAll("text.x")].map((one) => one.cloneNode(true));
      this.lines = [...figure.querySelectorAll("path.line")];
      this.drawn = this.lines.map((one) => one.getAttribute("d"));
      this.at = -1;
      figure.tabIndex = 0;
    }

    // Read when somebody looks: a page of a hundred charts opens as fast as one of three.
    get data() {
      if (this.kept === undefined) {
        const { names, columns } = read(this.text);
        this.kept = this.figure.dataset.kind === "heat" ? steps(columns) : { names, columns };
        this.whole = [Math.min(0, this.kept.columns[0][0]), this.kept.columns[0].at(-1)];
      }
      return this.kept;
    }

    get seconds() { return this.data.columns[0]; }
    get range() { void this.data; return this.zoomed ?? this.whole; }

    second(clientX) {
      const { left, width } = this.svg.getBoundingClientRect();
      const share = (((clientX - left) / width) * 720 - LEFT) / (RIGHT - LEFT);
      const [from, to] = this.range;
      return from + Math.min(1, Math.max(0, share)) * (to - from);
    }

    x(second) {
      const [from, to] = this.whole;
      return LEFT + ((second - from) / (to - from || 1)) * (RIGHT - LEFT);
    }

    // The values of the row that ends at or behind a moment.
    show(at) {
      this.at = at;
      const { names, columns } = this.data;
      const unit = this.figure.dataset.unit;
      const readout = this.figure.querySelector(".readout");
      readout.replaceChildren(names[0] + " ", bold(String(columns[0][at])));
      names.slice(1).forEach((name, column) => {
        const value = columns[column + 1][at];
        const isCount = name === "operations";
        const label = name.endsWith(" (" + unit + ")") ? name.slice(0, -unit.length - 3) : name;
        readout.append(label + " ", bold(value === null || value === undefined ? "-" : isCount ? String(value) : value + " " + unit));
      });
      this.cursor ??= this.plots.at(-1).appendChild(element("path", { class: "cursor" }));
      this.cursor.setAttribute("d", "M" + this.x(columns[0][at]).toFixed(2) + " " + this.top + "v" + this.height);
    }

    showSecond(second) {
      const at = this.seconds.findIndex((one) => one >= second);
      if (this.seconds.length > 0 && second <= this.whole[1]) this.show(at < 0 ? this.seconds.length - 1 : at);
    }

    zoom(range) {
      if (range === null && this.zoomed === undefined) return;
      void this.data;
      const [from, to] = range ?? this.whole;
      if (!(to - from > 0) || from > this.whole[1]) return;
      this.zoomed = range === null ? undefined : [from, to];
      const [left, right] = [this.x(from), this.x(to)];
      for (const plot of this.plots) plot.setAttribute("viewBox", [left, this.top, right - left, this.height].join(" "));
      for (const old of this.svg.querySelectorAll(":scope > text.x")) old.remove();
      if (range === null) {
        this.svg.append(...this.ticks.map((one) => one.cloneNode(true)));
        this.lines.forEach((one, at) => one.setAttribute("d", this.drawn[at]));
        return;
      }
      for (const tick of ticks([from, to])) {
        const x = LEFT + ((tick - from) / (to - from)) * (RIGHT - LEFT);
        const label = element("text", { class: x > RIGHT - 16 ? "x last" : "x", x: x > RIGHT - 16 ? 720 : x, y: this.svg.viewBox.baseVal.height - 6 });
        label.textContent = short(tick);
        this.svg.append(label);
      }
      // Steps of a second have all values in the CSV; longer ones are means there, and their lowest and highest are in the drawing.
      const isFine = this.seconds.length < 2 || this.seconds[1] - this.seconds[0] <= 1;
      if (this.figure.dataset.kind === "time" && isFine) this.refine([from, to]);
    }

    // The lines anew from all values within the range, where the drawing shows groups of them.
    refine(range) {
      const { low, high, log } = this.plots.at(-1).dataset;
      const [least, most] = [Number(low), Number(high)];
      const share = log ? (value) => Math.log(Math.max(value, 1e-300) / least) / Math.log(most / least) : (value) => (value - least) / (most - least);
      const [bottom, height] = [this.top + this.height - 2, this.height - 4];
      const y = (value) => bottom - Math.min(1, Math.max(0, share(value))) * height;
      this.lines.forEach((one, at) => one.setAttribute("d", line(this.seconds, this.data.columns[at + 1], range, (second) => this.x(second), y)));
    }
  }

  const bold = (text) => Object.assign(document.createElement("b"), { textContent: text });

  // What a heat map holds of each step: its end, the fastest and the slowest, how many.
  const steps = ([from, to, low, high, count]) => {
    const all = new Map();
    from.forEach((second, at) => {
      const step = all.get(second) || [to[at], low[at], high[at], 0];
      all.set(second, [to[at], Math.min(step[1], low[at]), Math.max(step[2], high[at]), step[3] + count[at]]);
    });
    const rows = [...all.values()];
    return { names: ["second", "fastest", "slowest", "operations"], columns: [0, 1, 2, 3].map((at) => rows.map((row) => row[at])) };
  };

  const figures = [...document.querySelectorAll("figure.chart")];
  figures.forEach((figure) => save(figure, figure.querySelector(".csv").textContent));
  const charts = figures.filter((figure) => figure.dataset.kind !== "still").map((figure) => new Chart(figure));
  const zoomAll = (range) => charts.forEach((chart) => chart.zoom(range));

  // All charts over time share the cursor and the zoom. Those out of sight follow when the pointer rests.
  let rest;
  const showAll = (second) => {
    const inSight = ({ figure }) => { const box = figure.getBoundingClientRect(); return box.bottom > 0 && box.top < innerHeight; };
    charts.filter(inSight).forEach((chart) => chart.showSecond(second));
    clearTimeout(rest);
    rest = setTimeout(() => charts.forEach((chart) => chart.showSecond(second)), 100);
  };

  for (const chart of charts) {
    const { svg, figure } = chart;
    let from = null, selection = null;
    svg.addEventListener("pointermove", (event) => {
      showAll(chart.second(event.clientX));
      if (from === null) return;
      const [low, high] = [from, chart.second(event.clientX)].sort((a, b) => a - b).map((second) => chart.x(second));
      selection ??= chart.plots.at(-1).appendChild(element("rect", { class: "selection", y: chart.top, height: chart.height }));
      selection.setAttribute("x", low);
      selection.setAttribute("width", high - low);
    });
    svg.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      from = chart.second(event.clientX);
      if (event.pointerType === "mouse") svg.setPointerCapture(event.pointerId);
    });
    const end = (event) => {
      const range = from === null ? null : [from, chart.second(event.clientX)].sort((a, b) => a - b);
      selection?.remove();
      [from, selection] = [null, null];
      const [low, high] = chart.range;
      if (event.type === "pointerup" && range && range[1] - range[0] > (high - low) / 100) zoomAll(range);
    };
    svg.addEventListener("pointerup", end);
    svg.addEventListener("pointercancel", end);
    svg.addEventListener("dblclick", () => zoomAll(null));
    figure.addEventListener("keydown", (event) => {
      if (event.target !== figure || event.ctrlKey || event.metaKey || event.altKey) return;
      const last = chart.seconds.length - 1;
      const next = { ArrowLeft: Math.max(chart.at - 1, 0), ArrowRight: Math.min(chart.at + 1, last), Home: 0, End: last }[event.key];
      if (next !== undefined) {
        chart.show(next);
        showAll(chart.seconds[next]);
      } else if (event.key === "0") zoomAll(null);
      else if (event.key === "+" || event.key === "-") {
        const [low, high] = chart.range, middle = chart.at < 0 ? (low + high) / 2 : chart.seconds[chart.at];
        const half = ((high - low) / 2) * (event.key === "+" ? 0.5 : 2);
        const range = [Math.max(chart.whole[0], middle - half), Math.min(chart.whole[1], middle + half)];
        zoomAll(range[0] <= chart.whole[0] && range[1] >= chart.whole[1] ? null : range);
      } else return;
      event.preventDefault();
    });
  }
  // Paper shows the whole.
  addEventListener("beforeprint", () => zoomAll(null));

  // What scrolls sideways in this window is a stop of the keyboard with a name (WCAG 2.1.1). A fold that opens changes its size too.
  const reach = (scroller) => {
    const isCut = scroller.scrollWidth > scroller.clientWidth + 1;
    if (isCut === scroller.hasAttribute("tabindex")) return;
    if (!isCut) { for (const name of ["tabindex", "role", "aria-label"]) scroller.removeAttribute(name); return; }
    const named = scroller.closest("figure")?.querySelector("figcaption") ?? scroller.closest("section")?.querySelector("h2, h3");
    scroller.tabIndex = 0;
    scroller.setAttribute("role", "region");
    scroller.setAttribute("aria-label", (named?.textContent.trim() ?? "data") + ", scrolls");
  };
  const sizes = new ResizeObserver((changes) => changes.forEach((change) => reach(change.target)));
  for (const scroller of document.querySelectorAll(".scroll")) sizes.observe(scroller);

  // Commands can be copied without their button's own word.
  for (const command of document.querySelectorAll("pre.command")) {
    const text = command.textContent;
    const button = Object.assign(document.createElement("button"), { type: "button", className: "copy", textContent: "Copy" });
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(text);
        button.textContent = "Copied";
      } catch {
        // The browser refuses: what is selected can be copied by hand.
        getSelection().selectAllChildren(command);
        button.textContent = "Selected";
      }
    });
    command.prepend(button);
  }
})();
