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

  const draw = (figure, text) => {
    const { names, columns } = read(text);
    const place = figure.querySelector(".plot");
    const axis = { stroke: colour("--soft"), grid: { stroke: colour("--rule"), width: 1 }, ticks: { show: false } };
    const isLog = figure.dataset.log === "1";
    const plot = new uPlot({
      width: place.clientWidth,
      height: 220,
      cursor: { sync: { key: "time" } },
      scales: { x: { time: false }, y: isLog ? { distr: 3 } : { range: (_, low, high) => [Math.min(0, low), high > 0 ? high * 1.05 : 1] } },
      axes: [axis, { ...axis, size: 56 }],
      series: [{ label: "second" }].concat(names.slice(1).map((name, at) => ({
        label: name, stroke: colour("--c" + (at % 8)), width: 1.5, dash: dashes[at % 8], spanGaps: false, points: { show: false },
        value: (_, value) => (value === null ? "-" : value + " " + figure.dataset.unit),
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
    if (figure.dataset.kind === "time") near.observe(figure);
  }
})();
