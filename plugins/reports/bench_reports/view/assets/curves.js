// Training curves of the selected cells: a line for each training run, distinguished by letters and dashes.

const SVG = "http://www.w3.org/2000/svg";
const DASHES = ["", "7 4", "2 3", "9 3 2 3", "12 4", "4 2"];
const HEIGHT = 260;
const MARGIN = { top: 10, right: 34, bottom: 34, left: 58 };
const STEEP = 100; // ratio of the largest to the smallest number above which the axis is logarithmic

function trainingsOf(groups) {
  const found = groups.flatMap((group, place) => group.cells.filter((cell) => cell.curve >= 0).map((cell) => (
    { ...dataOf(group).curves[cell.curve], id: `${group.run.place} ${cell.curve}`, place, seed: cell.seed })));
  const letters = new Map();
  for (const one of found) letters.set(one.id, [...new Set([...(letters.get(one.id) ?? []), capital(one.place)])]);
  return [...new Map(found.reverse().map((one) => [one.id, { ...one, letters: letters.get(one.id).join(" ") }])).values()].reverse();
}

function renderCurves(box, groups) {
  const trainings = trainingsOf(groups);
  const names = unique(trainings.flatMap((one) => Object.keys(one.series)));
  if (!names.length) {
    box.replaceChildren();
    return;
  }
  const name = names.includes(state.curve) ? state.curve : names.find((one) => one.startsWith("valid")) ?? names[0];
  const select = choice("curve", names.map((one) => [one, one]));
  select.value = name;
  select.addEventListener("change", () => {
    state.curve = select.value;
    saveState();
    draw();
  });
  const controls = element("div", "", "controls small");
  controls.append(labelled("curve", select));
  const figure = element("figure", "", "curves");
  box.replaceChildren(element("h3", "Training"), controls, figure);
  const draw = () => drawCurves(figure, trainings, select.value);
  box.redraw = draw;
  draw();
}

function drawCurves(figure, trainings, name) {
  const lines = trainings.filter((one) => name in one.series).map((one) => ({
    ...one,
    points: one.steps.map((step, place) => [step, one.series[name][place]]).filter(([, value]) => value !== null),
  })).filter((one) => one.points.length);
  const last = (one) => one.points.at(-1)[1];
  const words = lines.map((one) => `${one.letters} (seed ${one.seed}) ends at ${short(last(one))}`);
  const caption = element("figcaption", words.length ? `${name} by training step: ${words.join(", ")}.` : `${name} has no finite values.`);
  figure.replaceChildren(...(lines.length ? [chart(figure.clientWidth || 600, lines, name)] : []), caption);
}

function chart(width, lines, name) {
  const every = lines.flatMap((one) => one.points);
  const [xs, ys] = [0, 1].map((place) => every.map((point) => point[place]));
  const [low, high] = [Math.min(...ys), Math.max(...ys)];
  const log = low > 0 && high / low >= STEEP;
  const x = scale([Math.min(...xs), Math.max(...xs)], [MARGIN.left, width - MARGIN.right]);
  const way = log ? Math.log10 : (value) => value;
  const y = scale([way(low), way(high)], [HEIGHT - MARGIN.bottom - 10, MARGIN.top]);
  const svg = drawn("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: "img" });
  svg.append(Object.assign(drawn("title"), { textContent: `${name} by training step` }));
  for (const tick of ticks(way(low), way(high), log)) {
    const place = y(tick);
    svg.append(drawn("line", { x1: MARGIN.left, x2: width - MARGIN.right, y1: place, y2: place, class: "grid" }));
    svg.append(words(short(log ? 10 ** tick : tick), MARGIN.left - 6, place + 4, "end"));
  }
  for (const tick of ticks(Math.min(...xs), Math.max(...xs), false, width < 500 ? 3 : 6)) {
    svg.append(words(tick.toLocaleString("en"), x(tick), HEIGHT - MARGIN.bottom + 16, "middle"));
  }
  svg.append(words(log ? "step (values on a log scale)" : "step", (MARGIN.left + width - MARGIN.right) / 2, HEIGHT - 3, "middle"));
  for (const one of lines) {
    const points = one.points.map(([step, value]) => [x(step), y(way(value))]);
    const look = { class: `line line-${one.place % DASHES.length}`, "stroke-dasharray": DASHES[one.place % DASHES.length] };
    if (points.length > 1) svg.append(drawn("polyline", { ...look, points: points.map((point) => point.join()).join(" ") }));
    else svg.append(drawn("circle", { class: look.class, cx: points[0][0], cy: points[0][1], r: 3 }));
  }
  svg.append(...endLabels(lines.map((one) => [one.letters, y(way(one.points.at(-1)[1])), x(one.points.at(-1)[0])])));
  return svg;
}

// The letters at the ends of lines, moved apart so that they do not overlap.
function endLabels(labels) {
  let above = -Infinity;
  const first = new Map(labels.map((one) => [one[0], one]));
  return [...first.values()].sort((a, b) => a[1] - b[1]).map(([letters, place, end]) => {
    above = Math.max(place + 4, above + 14);
    return words(letters, end + 6, above, "start", "label");
  });
}

function scale([from, to], [start, end]) {
  return (value) => (to === from ? (start + end) / 2 : start + ((value - from) / (to - from)) * (end - start));
}

function ticks(low, high, whole, number = 5) {
  if (low === high) return [low];
  const raw = (high - low) / number;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = Math.max(whole ? 1 : 0, power * [1, 2, 5, 10].find((one) => one * power >= raw));
  const found = [];
  for (let place = Math.ceil(low / step); place * step <= high * (1 + 1e-12); place += 1) found.push(Number((place * step).toPrecision(12)));
  return found;
}

function short(value) {
  const size = Math.abs(value);
  return (size && (size >= 1e6 || size < 1e-3) ? value.toExponential(1) : Number(value.toPrecision(4)).toLocaleString("en", { maximumFractionDigits: 6 })).replace("-", "−");
}

function drawn(name, attributes = {}) {
  const made = document.createElementNS(SVG, name);
  for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, value);
  return made;
}

function words(content, x, y, anchor, look = "tick") {
  return Object.assign(drawn("text", { x, y, "text-anchor": anchor, class: look }), { textContent: content });
}
