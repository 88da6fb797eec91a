// What the tests ask of a page from inside it: handed to the browser by the driver, never part of the page. Each question returns a
// list of complaints, empty where all is well, so that a test shows what is wrong and not only that something is.
globalThis.probe = (() => {
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  const close = (one, other) => Math.abs(one - other) <= 2e-4 * Math.max(Math.abs(one), Math.abs(other)) + 1e-9;

  // A reader of the CSV of its own: quotes as RFC 4180 has them.
  const csv = (figure) => {
    const rows = figure.querySelector("pre.csv").textContent.trim().split("\n").map((row) => {
      const cells = [];
      let cell = "", quoted = false;
      for (let at = 0; at < row.length; at++) {
        if (quoted && row[at] === '"' && row[at + 1] === '"') { cell += '"'; at++; }
        else if (row[at] === '"') quoted = !quoted;
        else if (row[at] === "," && !quoted) { cells.push(cell); cell = ""; }
        else cell += row[at];
      }
      return [...cells, cell];
    });
    return { heads: rows[0], rows: rows.slice(1) };
  };

  // Scrolls through the page as a reader does.
  const walk = async () => {
    all("figure.chart").forEach((figure) => figure.scrollIntoView());
    await frame();
    return true;
  };

  const known = new Map();
  const rgb = (text) => {
    if (known.has(text)) return known.get(text);
    const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    context.fillStyle = text;
    context.fillRect(0, 0, 1, 1);
    known.set(text, [...context.getImageData(0, 0, 1, 1).data]);
    return known.get(text);
  };

  // What a tick says: 20k, 1.5M, 99.9 %.
  const tickValue = (text) => Number.parseFloat(text) * ({ k: 1e3, M: 1e6, G: 1e9 }[text.trim().at(-1)] ?? 1);

  // From a height on the picture back to the value, by what the ticks say of themselves.
  const upside = (figure) => {
    const ticks = all("text.y", figure).map((text) => [Number(text.getAttribute("y")) - 4, tickValue(text.textContent)]);
    const [[low, least], [high, most]] = [ticks[0], ticks.at(-1)];
    const isLog = ticks.length > 1 && least > 0 && Math.abs(ticks[1][1] / least - 10) < 0.01;
    return (y) => {
      const share = (y - low) / (high - low);
      return isLog ? least * (most / least) ** share : least + (most - least) * share;
    };
  };

  // A chart of runs: a point for each row where its time and value lie, with its interval, and a mark for each change.
  const runs = (figure, svg) => {
    const wrong = [];
    const { rows } = csv(figure);
    const value = upside(figure);
    const isAt = (y, wanted) => wanted >= value(y + 0.2) && wanted <= value(y - 0.2);
    const points = all("circle.point", svg);
    if (points.length !== rows.length) return [`${points.length} points of ${rows.length} rows`];
    const [x, time] = [(at) => points.at(at).cx.baseVal.value, (at) => Date.parse(rows.at(at)[0])];
    points.forEach((point, at) => {
      if (!isAt(point.cy.baseVal.value, Number(rows[at][1]))) wrong.push(`row ${at} is drawn at ${value(point.cy.baseVal.value)}, the CSV says ${rows[at][1]}`);
      const share = (time(at) - time(0)) / Math.max(1, time(-1) - time(0));
      if (Math.abs(x(at) - x(0) - share * (x(-1) - x(0))) > 0.2) wrong.push(`row ${at} is not at its time`);
    });
    const ends = all("path.whisker", svg).map((path) => path.getAttribute("d").match(/M[\d.]+ ([\d.]+)V([\d.]+)/).slice(1).map(Number));
    const wanted = rows.filter((row) => row[2] !== "");
    if (ends.length !== wanted.length) return wrong.concat(`${ends.length} intervals of ${wanted.length}`);
    ends.forEach(([low, high], at) => {
      if (!isAt(low, Number(wanted[at][2])) || !isAt(high, Number(wanted[at][3]))) wrong.push(`the interval of ${wanted[at][0]} is drawn from ${value(low)} to ${value(high)}`);
    });
    const changes = rows.filter((row) => row[5] !== "").length;
    if (all("path.change", svg).length !== changes || all("text.mark", svg).length !== changes) wrong.push(`not ${changes} changes`);
    if (all("path.level", svg).length !== changes + 1) wrong.push("not a level on both sides of each change");
    return wrong;
  };

  // A chart of points: each row's value, and the ends of its interval, lie where the ticks say. A forest has them along, others upwards.
  const dots = (figure, svg) => {
    const wrong = [];
    const { heads, rows } = csv(figure);
    const isAlong = svg.matches(".forest");
    const tickAt = (text) => (isAlong ? Number(text.getAttribute("x")) : Number(text.getAttribute("y")) - 4);
    const ticks = all(isAlong ? "text.x" : "text.y", svg).map((text) => [tickAt(text), tickValue(text.textContent)]);
    if (ticks.length < 2) return ["has no two ticks"];
    const [[low, least], [high, most]] = [ticks[0], ticks.at(-1)];
    const value = (at) => {
      const share = (at - low) / (high - low);
      return figure.dataset.log === "1" ? least * (most / least) ** share : least + (most - least) * share;
    };
    const isAt = (at, wanted) => {
      const ends = [value(at - 0.4), value(at + 0.4)];
      return wanted >= Math.min(...ends) && wanted <= Math.max(...ends);
    };
    const column = heads.findIndex((head) => head.startsWith("value (") || head.startsWith("effect ("));
    const points = all("circle.dot", svg);
    if (points.length !== rows.length) return [`${points.length} points of ${rows.length} rows`];
    points.forEach((point, at) => {
      const place = (isAlong ? point.cx : point.cy).baseVal.value;
      if (!isAt(place, Number(rows[at][column]))) wrong.push(`row ${at} is drawn at ${value(place)}, the CSV says ${rows[at][column]}`);
      const isNext = !isAlong && at > 0 && rows[at][0] === rows[at - 1][0] && Number(rows[at][1]) > Number(rows[at - 1][1]);
      if (isNext && point.cx.baseVal.value <= points[at - 1].cx.baseVal.value) wrong.push(`row ${at} does not lie behind the one before`);
    });
    const strokes = all("path.whisker", svg).map((path) => path.getAttribute("d").match(isAlong ? /M([\d.]+) [\d.]+H([\d.]+)/ : /M[\d.]+ ([\d.]+)V([\d.]+)/).slice(1).map(Number));
    const wanted = rows.filter((row) => row[column + 1] !== "");
    if (strokes.length !== wanted.length) return wrong.concat(`${strokes.length} intervals of ${wanted.length}`);
    strokes.forEach(([from, to], at) => {
      if (!isAt(from, Number(wanted[at][column + 1])) || !isAt(to, Number(wanted[at][column + 2]))) wrong.push(`the interval of ${wanted[at][0]} is drawn from ${value(from)} to ${value(to)}`);
    });
    return wrong;
  };

  // The drawing of a chart: each line within the picture, and its corners at the values of the CSV.
  const drawing = (figure) => {
    const wrong = [];
    const svg = figure.querySelector(".plot > svg");
    if (!svg) return ["has no picture"];
    const box = svg.viewBox.baseVal;
    const { heads, rows } = csv(figure);
    const lines = all("path.line", svg);
    const shapes = all("path, rect, circle, line, polyline, polygon", svg).filter((shape) => !shape.matches(".rule"));
    if (shapes.length === 0) wrong.push("nothing is drawn");
    for (const shape of shapes) {
      const at = shape.getBBox();
      const edge = 0.6;
      if (at.x < box.x - edge || at.y < box.y - edge || at.x + at.width > box.x + box.width + edge || at.y + at.height > box.y + box.height + edge) {
        wrong.push(`${shape.getAttribute("class")} leaves the picture`);
      }
      if (shape.matches(".line") && at.width === 0 && at.height === 0) wrong.push(`${shape.getAttribute("class")} is empty`);
    }
    for (const text of all("text", svg)) {
      const at = text.getBBox();
      if (at.x < box.x - 1 || at.x + at.width > box.x + box.width + 1) wrong.push(`the label ${text.textContent} is cut`);
    }
    if (figure.dataset.kind === "heat") {
      const cells = all("path.cell", svg).reduce((sum, path) => sum + path.getAttribute("d").split("M").length - 1, 0);
      if (cells !== rows.length) wrong.push(`${cells} cells of ${rows.length} rows`);
    }
    if (figure.querySelector("circle.dot")) return wrong.concat(dots(figure, svg));
    if (figure.querySelector("circle.point")) return wrong.concat(runs(figure, svg));
    // More points than 400 are drawn as means of neighbours: nothing to compare one by one.
    if (lines.length !== heads.length - 1 || rows.length > 400 || !figure.querySelector("text.y")) return wrong;
    const value = upside(figure);
    lines.forEach((line, column) => {
      const corners = [...line.getAttribute("d").matchAll(/[ML](-?[\d.]+) (-?[\d.]+)/g)].map((one) => Number(one[2]));
      const wanted = rows.map((row) => row[column + 1]).filter((cell) => cell !== "").map(Number);
      if (corners.length !== wanted.length) { wrong.push(`${heads[column + 1]}: ${corners.length} corners of ${wanted.length} values`); return; }
      const height = box.height;
      corners.forEach((y, at) => {
        // A tenth of a unit of the picture is what the corners are rounded to.
        const [above, below] = [value(y - 0.2), value(y + 0.2)];
        const isLowest = wanted[at] <= value(height) || below <= value(height - 25);
        if (!isLowest && (wanted[at] > above * 1.001 || wanted[at] < below * 0.999)) wrong.push(`${heads[column + 1]}: row ${at} is drawn at ${value(y)}, the CSV says ${wanted[at]}`);
      });
    });
    return wrong;
  };

  // Every chart, named, with what is wrong with it.
  const charts = () => all("figure.chart").flatMap((figure) => drawing(figure).map((what) => `${figure.id}: ${what}`));

  // What the zoom shows: the seconds at both ends of each chart over time, by its ticks, and whether each line passes through every value between.
  const zoomed = () => all("figure.chart[data-kind=time]").flatMap((figure) => {
    const { rows, heads } = csv(figure);
    const plot = all("svg.along", figure).at(-1);
    const box = plot.viewBox.baseVal;
    const whole = Number(rows.at(-1)[0]);
    const second = (x) => ((x - 56) / 656) * whole;
    const [from, to] = [second(box.x), second(box.x + box.width)];
    const labels = all(".plot > svg > text.x", figure).map((text) => tickValue(text.textContent));
    const wrong = labels.some((label) => label < from - 0.01 * whole || label > to + 0.01 * whole) ? [`${figure.id}: ticks ${labels} are not within ${from} to ${to}`] : [];
    all("path.line", plot).forEach((line, column) => {
      const corners = [...line.getAttribute("d").matchAll(/[ML](-?[\d.]+) (-?[\d.]+)/g)].map((one) => second(Number(one[1])));
      const inside = rows.filter((row) => row[column + 1] !== "" && Number(row[0]) >= from && Number(row[0]) <= to);
      const missing = inside.filter((row) => !corners.some((corner) => Math.abs(corner - Number(row[0])) < 0.01 * whole));
      if (inside.length <= 400 && missing.length > 0) wrong.push(`${figure.id}, ${heads[column + 1]}: ${missing.length} of ${inside.length} values are not drawn`);
    });
    return wrong;
  });

  // Cumulative layout shift (web.dev/cls) of the page until now: the sum of shifts that nobody caused.
  const shift = () => new Promise((done) => {
    let sum = 0;
    const observer = new PerformanceObserver((list) => list.getEntries().forEach((entry) => { if (!entry.hadRecentInput) sum += entry.value; }));
    observer.observe({ type: "layout-shift", buffered: true });
    setTimeout(() => done(sum), 300);
  });

  // The least, mean and most of each line, computed again of its CSV.
  const summaries = () => all("figure.chart").flatMap((figure) => {
    const { heads, rows } = csv(figure);
    return all("details tbody tr", figure).flatMap((row, at) => {
      const cells = [...row.children].map((cell) => cell.textContent);
      const column = heads.indexOf(`${cells[0]} (${figure.dataset.unit})`);
      if (column < 1) return [];
      const values = rows.map((one) => one[column]).filter((cell) => cell !== "").map(Number);
      const wanted = [Math.min(...values), values.reduce((sum, value) => sum + value, 0) / values.length, Math.max(...values)];
      const isRight = wanted.every((value, which) => close(value, Number(cells[which + 1])));
      return isRight ? [] : [`${figure.id}, ${cells[0]}: ${cells.slice(1)} and not ${wanted}`];
    });
  });

  // Texts that can be seen, each line with its box, as far as what scrolls around it lets through.
  const texts = () => {
    const found = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const parent = node.parentElement;
      if (!node.textContent.trim() || parent.closest("script, style, .skip") || !parent.checkVisibility({ contentVisibilityAuto: true, visibilityProperty: true })) continue;
      const range = document.createRange();
      range.selectNodeContents(node);
      for (const rect of range.getClientRects()) {
        let [left, top, right, bottom] = [rect.left, rect.top, rect.right, rect.bottom];
        for (let up = parent; up; up = up.parentElement) {
          const style = getComputedStyle(up);
          if (style.overflowX === "visible" && style.overflowY === "visible") continue;
          const box = up.getBoundingClientRect();
          [left, top, right, bottom] = [Math.max(left, box.left), Math.max(top, box.top), Math.min(right, box.right), Math.min(bottom, box.bottom)];
        }
        if (right - left > 1 && bottom - top > 1) found.push({ node, parent, left, top: top + scrollY, right, bottom: bottom + scrollY });
      }
    }
    return found;
  };

  // Where the page is wider than the window, texts lie over each other, or one leaves the window.
  const layout = () => {
    const wrong = [];
    const wide = Math.max(document.documentElement.scrollWidth, document.body.scrollWidth);
    if (wide > innerWidth) wrong.push(`the page is ${wide} wide in a window of ${innerWidth}`);
    const seen = texts().sort((one, other) => one.top - other.top);
    seen.forEach((one, at) => {
      const name = one.node.textContent.trim().slice(0, 30);
      if (one.left < -1 || one.right > innerWidth + 1) wrong.push(`'${name}' leaves the window`);
      for (let next = at + 1; next < seen.length && seen[next].top < one.bottom - 4; next++) {
        const other = seen[next];
        if (other.node === one.node) continue;
        const across = Math.min(one.right, other.right) - Math.max(one.left, other.left);
        const down = Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top);
        if (across > 2 && down > 4) wrong.push(`'${name}' and '${other.node.textContent.trim().slice(0, 30)}' overlap by ${across.toFixed(0)} x ${down.toFixed(0)}`);
      }
    });
    return wrong;
  };

  const blend = (front, back) => front.slice(0, 3).map((part, at) => (part * front[3] + back[at] * (255 - front[3])) / 255);
  const luminance = (colour) => {
    const [red, green, blue] = colour.map((part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const contrast = (one, other) => {
    const [light, dark] = [luminance(one), luminance(other)].sort((a, b) => b - a);
    return (light + 0.05) / (dark + 0.05);
  };
  const background = (element) => {
    const layers = [];
    for (let up = element; up; up = up.parentElement) {
      const layer = getComputedStyle(up).backgroundColor;
      if (layer !== "rgba(0, 0, 0, 0)") layers.push(rgb(layer));
    }
    return layers.reverse().reduce((back, layer) => blend(layer, back), [255, 255, 255]);
  };

  // WCAG 2.2: text against what is behind it 4.5 to 1 (1.4.3), lines and bars 3 to 1 (1.4.11).
  const dim = () => {
    const wrong = new Set();
    for (const { parent } of texts()) {
      const style = getComputedStyle(parent);
      const colour = parent instanceof SVGElement ? style.fill : style.color;
      const back = background(parent);
      const ratio = contrast(blend(rgb(colour), back), back);
      if (ratio < 4.5) wrong.add(`${parent.tagName}.${parent.getAttribute("class") ?? ""}: text ${colour} at ${ratio.toFixed(2)}`);
    }
    const back = background(document.body);
    for (let at = 0; at < 8; at++) {
      const ratio = contrast(rgb(getComputedStyle(document.documentElement).getPropertyValue("--c" + at)).slice(0, 3), back);
      if (ratio < 3) wrong.add(`line c${at} at ${ratio.toFixed(2)}`);
    }
    return [...wrong];
  };

  // What cannot be seen although nobody folded it away.
  const hidden = () => all("main *").filter((element) => {
    // A summary is seen while its own details are folded. On a telephone the columns of settings lie below each other and need no heads.
    const around = element.matches("summary") ? element.parentElement.parentElement : element;
    if (element.closest(".live, .save, .settings thead") || around.closest("details:not([open])")) return false;
    return !element.checkVisibility({ opacityProperty: true, visibilityProperty: true });
  }).map((element) => `${element.tagName}.${element.getAttribute("class") ?? ""} in ${element.closest("[id]")?.id}`);

  // The blocks that can be seen: where each is, and of a chart's picture a raster of the page's screenshot.
  const COLUMNS = 12, ROWS = 5;
  const blocks = async (url) => {
    const image = new Image();
    image.src = url;
    await image.decode();
    const context = Object.assign(document.createElement("canvas"), { width: image.width, height: image.height }).getContext("2d", { willReadFrequently: true });
    context.drawImage(image, 0, 0);
    const raster = (box) => {
      const [mean, spread] = [[], []];
      for (let row = 0; row < ROWS; row++) {
        for (let column = 0; column < COLUMNS; column++) {
          const [wide, high] = [Math.max(1, Math.floor(box.width / COLUMNS)), Math.max(1, Math.floor(box.height / ROWS))];
          const { data } = context.getImageData(Math.floor(box.left) + column * wide, Math.floor(box.top + scrollY) + row * high, wide, high);
          let [sum, squares] = [0, 0];
          for (let at = 0; at < data.length; at += 4) {
            const light = 0.299 * data[at] + 0.587 * data[at + 1] + 0.114 * data[at + 2];
            sum += light;
            squares += light * light;
          }
          const count = data.length / 4;
          mean.push(Math.round(sum / count));
          spread.push(Math.round(Math.sqrt(Math.max(0, squares / count - (sum / count) ** 2))));
        }
      }
      return { mean, spread };
    };
    const seen = all("header, .answer, .card, article.finding, h2, figure, table.settings, footer").filter((one) => one.checkVisibility({ visibilityProperty: true, opacityProperty: true }));
    return seen.map((one, at) => {
      const box = one.getBoundingClientRect();
      const name = one.id || `${one.tagName.toLowerCase()} ${one.className} ${seen.slice(0, at).filter((other) => other.tagName === one.tagName).length}`;
      const place = { name, left: +(box.left / innerWidth).toFixed(3), width: +(box.width / innerWidth).toFixed(3), height: Math.round(box.height) };
      // Within the plot the axes' labels are left out: their fonts differ.
      const svg = one.querySelector(".plot > svg");
      if (!svg) return place;
      const whole = svg.getBoundingClientRect();
      const [wide, high] = [whole.width / 720, whole.height / 220];
      return { ...place, ...raster({ left: whole.left + 56 * wide, top: whole.top + 8 * high, width: 656 * wide, height: 188 * high }) };
    });
  };

  return { all, blocks, csv, frame, walk, charts, zoomed, shift, summaries, layout, dim, hidden };
})();
true;
