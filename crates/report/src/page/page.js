// Makes charts over time that can be zoomed of the data in the page. Without this script the page says the same.
"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("scripted");
  const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const dashes = [[], [7, 3], [2, 3], [9, 3, 2, 3], [], [7, 3], [2, 3], [9, 3, 2, 3]];

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
    const place = figure.querySelector(".save");
    const link = document.createElement("a");
    link.textContent = "Save as CSV";
    link.download = figure.id + ".csv";
    link.href = "#" + figure.id;
    link.addEventListener("click", () => {
      link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
    });
    place.append(link);
  };

  // Cells of a heat map: what each step holds as lines, and the cells to be drawn behind them.
  const heat = (columns) => {
    const [from, to, low, high, count] = columns;
    const most = Math.log(Math.max(2, ...count));
    const steps = new Map();
    from.forEach((second, at) => {
      const step = steps.get(second) || [to[at], low[at], high[at], 0];
      steps.set(second, [to[at], Math.min(step[1], low[at]), Math.max(step[2], high[at]), step[3] + count[at]]);
    });
    const under = (plot) => {
      plot.ctx.save();
      plot.ctx.beginPath();
      plot.ctx.rect(plot.bbox.left, plot.bbox.top, plot.bbox.width, plot.bbox.height);
      plot.ctx.clip();
      plot.ctx.fillStyle = colour("--c0");
      from.forEach((second, at) => {
        const [left, right] = [second, to[at]].map((value) => plot.valToPos(value, "x", true));
        const [top, bottom] = [high[at], low[at]].map((value) => plot.valToPos(value, "y", true));
        plot.ctx.globalAlpha = 0.15 + (0.85 * Math.log(count[at])) / most;
        plot.ctx.fillRect(left, top, right - left, bottom - top);
      });
      plot.ctx.restore();
    };
    const lines = [...steps.values()];
    return { names: ["second", "fastest", "slowest", "operations"], columns: [0, 1, 2, 3].map((at) => lines.map((step) => step[at])), under };
  };

  const draw = (figure, text) => {
    const data = read(text);
    const { names, columns, under } = figure.dataset.kind === "heat" ? heat(data.columns) : data;
    const place = figure.querySelector(".plot");
    const axis = { stroke: colour("--soft"), grid: { stroke: colour("--rule"), width: 1 }, ticks: { show: false } };
    const isLog = figure.dataset.log === "1";
    const plot = new uPlot({
      width: place.clientWidth,
      height: 220,
      cursor: { sync: { key: "time" } },
      scales: { x: { time: false }, y: isLog ? { distr: 3 } : { range: (_, low, high) => [Math.min(0, low), high > 0 ? high * 1.05 : 1] } },
      axes: [axis, { ...axis, size: 56 }],
      hooks: under ? { drawClear: [under] } : {},
      series: [{ label: "second" }].concat(names.slice(1).map((name, at) => ({
        label: name, stroke: under ? "transparent" : colour("--c" + (at % 8)), width: 1.5, dash: dashes[at % 8], spanGaps: false, points: { show: false },
        scale: name === "operations" && under ? "count" : "y",
        value: (_, value) => (value === null ? "-" : name === "operations" && under ? String(value) : value + " " + figure.dataset.unit),
      }))),
    }, isLog ? [columns[0]].concat(columns.slice(1).map((column) => column.map((value) => (value > 0 ? value : null)))) : columns, place);
    place.querySelector("svg").style.display = "none";
    figure.tabIndex = 0;
    let at = 0;
    figure.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step || event.target !== figure) return;
      at = Math.min(Math.max(at + step, 0), columns[0].length - 1);
      plot.setCursor({ left: plot.valToPos(columns[0][at], "x"), top: 0 });
      event.preventDefault();
    });
    new ResizeObserver(() => {
      if (place.clientWidth > 0 && place.clientWidth !== plot.width) plot.setSize({ width: place.clientWidth, height: 220 });
    }).observe(place);
  };

  // A chart is made when it comes near the window: a page of a hundred opens as fast as one of three.
  const near = new IntersectionObserver((entries) => {
    for (const entry of entries.filter((one) => one.isIntersecting)) {
      near.unobserve(entry.target);
      draw(entry.target, entry.target.querySelector(".csv").textContent);
    }
  }, { rootMargin: "400px" });
  for (const figure of document.querySelectorAll("figure.chart")) {
    save(figure, figure.querySelector(".csv").textContent);
    if (figure.dataset.kind !== "still") near.observe(figure);
  }
})();
