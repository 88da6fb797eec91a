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

  // Below the tops of bars, whose steps end at the places of their values and are all as long as the first.
  const towers = (columns) => (plot) => {
    const { ctx, bbox } = plot;
    const step = columns[0][0];
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.globalAlpha = 0.25;
    columns.slice(1).forEach((column, at) => {
      ctx.fillStyle = colour("--c" + (at % 8));
      column.forEach((value, row) => {
        if (value === null) return;
        const [left, right] = [columns[0][row] - step, columns[0][row]].map((second) => plot.valToPos(second, "x", true));
        const top = plot.valToPos(value, "y", true);
        ctx.fillRect(left, top, right - left, bbox.top + bbox.height - top);
      });
    });
    ctx.restore();
  };

  // A tick's label, as the still charts have it: thousands as k, M, G, tiny values as powers of ten.
  const short = (value) => {
    if (value !== 0 && Math.abs(value) < 1e-3) return Number(value.toPrecision(5)).toExponential();
    const [size, letter] = [[1e9, "G"], [1e6, "M"], [1e3, "k"]].find(([size]) => Math.abs(value) >= size) ?? [1, ""];
    return Number((value / size).toPrecision(5)) + letter;
  };

  // The y axis: from 0, or whole decades with no lines between them.
  const upwards = (isLog) => {
    if (!isLog) return { scale: { range: (_, low, high) => [Math.min(0, low), high > 0 ? high * 1.05 : 1] }, axis: {} };
    const decade = (value, round) => 10 ** round(Math.log10(value));
    const range = (_, low, high) => {
      const from = low > 0 ? decade(low, Math.floor) : 1;
      return [from, Math.max(high > 0 ? decade(high, Math.ceil) : 1, from * 10)];
    };
    const splits = (plot) => {
      const { min, max } = plot.scales.y;
      const count = Math.round(Math.log10(max / min));
      return Array.from({ length: count + 1 }, (_, at) => Number((min * 10 ** at).toPrecision(6)));
    };
    return { scale: { distr: 3, range }, axis: { splits, filter: (_, all) => all } };
  };

  // Where a value has none beside it: a line has no length there, so that it needs a dot.
  const alone = (column) => column.flatMap((value, at) => {
    const isThere = (other) => other !== null && other !== undefined;
    return isThere(value) && !isThere(column[at - 1]) && !isThere(column[at + 1]) ? [at] : [];
  });

  // The bands behind the lines, from the still chart, whose plot lies between 56 and 712 of its width.
  const bands = (figure, seconds) => {
    const low = Math.min(0, seconds[0]), high = seconds.at(-1);
    const second = (x) => low + ((x - 56) / (712 - 56)) * (high - low);
    return [...figure.querySelectorAll("rect.band")].map(({ x, width }) => [x.baseVal.value, x.baseVal.value + width.baseVal.value].map(second));
  };
  const paint = (plot, all) => {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.fillStyle = colour("--band");
    for (const [from, to] of all) {
      const [left, right] = [plot.valToPos(from, "x", true), plot.valToPos(to, "x", true)];
      ctx.fillRect(left, bbox.top, right - left, bbox.height);
    }
    ctx.restore();
  };

  // A line's name without the unit that its column says.
  const named = (figure, head) => {
    const unit = " (" + figure.dataset.unit + ")";
    return head.endsWith(unit) ? head.slice(0, -unit.length) : head;
  };

  const drawn = [];
  const draw = (figure, text) => {
    const source = read(text);
    const { names, columns, under } = figure.dataset.kind === "heat" ? heat(source.columns) : source;
    const place = figure.querySelector(".plot");
    const height = place.querySelector("svg").viewBox.baseVal.height;
    const isLog = figure.dataset.log === "1";
    const isBars = figure.dataset.kind === "bars";
    const up = upwards(isLog);
    const data = isLog ? [columns[0]].concat(columns.slice(1).map((column) => column.map((value) => (value > 0 ? value : null)))) : columns;
    const line = (at) => "--c" + (at % 8);
    // What is made of steps begins with the first of them, at 0, unless somebody zooms in.
    const isSteps = under !== undefined || isBars;
    const behind = bands(figure, isSteps ? [0, columns[0].at(-1)] : columns[0]);
    const axis = { stroke: () => colour("--soft"), grid: { stroke: () => colour("--rule"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    const plot = new uPlot({
      width: place.clientWidth,
      height,
      cursor: { sync: { key: "time" } },
      hooks: { drawClear: [(plot) => paint(plot, behind)].concat(under ?? [], isBars ? towers(columns) : []) },
      legend: { markers: { stroke: (_, at) => (under ? "transparent" : "var(" + line(at - 1) + ")"), dash: (_, at) => ["solid", "dashed", "dotted", "double"][(at - 1) % 4] } },
      scales: { x: isSteps ? { time: false, range: (_, low, high) => [low === columns[0][0] ? 0 : low, high] } : { time: false }, y: up.scale },
      axes: [{ ...axis, size: 28 }, { ...axis, ...up.axis, size: 56, values: (_, all) => all.map(short) }],
      series: [{ label: "second" }].concat(names.slice(1).map((name, at) => {
        const dots = under ? [] : alone(data[at + 1]);
        const isCount = under !== undefined && name === "operations";
        return {
          label: named(figure, name), stroke: () => (under ? "transparent" : colour(line(at))), width: 1.5, dash: dashes[at % 8], spanGaps: false,
          scale: isCount ? "count" : "y",
          paths: isBars ? uPlot.paths.stepped({ align: -1 }) : undefined,
          points: { show: false, size: 5, fill: () => (under ? "transparent" : colour(line(at))), filter: () => (dots.length > 0 ? dots : null) },
          value: (_, value) => (value === null || value === undefined ? "-" : isCount ? String(value) : value + " " + figure.dataset.unit),
        };
      })),
    }, data, place);
    drawn.push(plot);
    figure.classList.add("drawn");
    let at = -1;
    figure.addEventListener("keydown", (event) => {
      const last = columns[0].length - 1;
      const next = { ArrowLeft: Math.max(at - 1, 0), ArrowRight: Math.min(at + 1, last), Home: 0, End: last }[event.key];
      if (next === undefined || event.target !== figure) return;
      at = next;
      plot.setCursor({ left: plot.valToPos(columns[0][at], "x"), top: 0 }, true, true);
      event.preventDefault();
    });
    new ResizeObserver(() => {
      if (place.clientWidth > 0 && place.clientWidth !== plot.width) plot.setSize({ width: place.clientWidth, height });
    }).observe(place);
  };

  // Who changes to dark or light while reading gets the lines in the new colours.
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawn.forEach((plot) => plot.redraw(false)));

  // A chart is made when it comes near the window: a page of a hundred opens as fast as one of three.
  const near = new IntersectionObserver((entries) => {
    for (const entry of entries.filter((one) => one.isIntersecting)) {
      near.unobserve(entry.target);
      draw(entry.target, entry.target.querySelector(".csv").textContent);
    }
  }, { rootMargin: "400px" });
  for (const figure of document.querySelectorAll("figure.chart")) {
    save(figure, figure.querySelector(".csv").textContent);
    if (figure.dataset.kind === "still") continue;
    // Reachable before it is drawn, so that the Tab key passes none.
    figure.tabIndex = 0;
    near.observe(figure);
  }
})();
