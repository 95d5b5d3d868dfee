// The selected cells side by side: all metrics, differences from the first cell, published numbers.

function renderComparison(box, groups, metrics, clear) {
  if (groups.length < 2) {
    const words = groups.length ? "Select another cell to compare." : "Select two or more cells in the table above.";
    box.replaceChildren(element("p", words, "hint"), ...(groups.length ? [listOf(groups, clear)] : []));
    return;
  }
  const marks = new Marks();
  for (const group of groups) for (const metric of metrics) marks.add(summaries(group, metric));
  const table = element("table", "", "right");
  table.id = "compared";
  table.createCaption().textContent = "Metrics of the selected cells";
  const head = table.createTHead().insertRow();
  ["metric", ...groups.map((_, place) => capital(place))].forEach((words) => {
    const cell = element("th", words);
    cell.scope = "col";
    head.append(cell);
  });
  const body = table.createTBody();
  for (const metric of metrics) body.append(metricRow(groups, metric, marks));
  const curves = element("div");
  refill(box, listOf(groups, clear), scrolling(table, "Comparison"), ...comparisonNotes(marks), ...commands(groups), curves);
  renderCurves(curves, groups);
}

const capital = (place) => letterOf(place).toUpperCase();

// The legend of the letters, with buttons to remove cells.
function listOf(groups, change) {
  const list = element("ul", "", "letters");
  groups.forEach((group, place) => {
    const item = element("li");
    const remove = element("button", "Remove");
    remove.type = "button";
    remove.setAttribute("aria-label", `Remove ${capital(place)}`);
    remove.addEventListener("click", () => change([group.id]));
    const names = group.names.filter((name) => name !== "default").join(" / ");
    const words = element("span");
    words.append(element("b", capital(place)), " ", element("bdi", names), element("small", `${group.run.label}, ${counted(group.cells.length, "seed")}`));
    item.append(words, remove);
    list.append(item);
  });
  const all = element("button", "Remove all");
  all.type = "button";
  all.addEventListener("click", () => change(groups.map((one) => one.id)));
  const item = element("li");
  item.append(all);
  list.append(item);
  return list;
}

function metricRow(groups, metric, marks) {
  const line = element("tr");
  const several = groups.map((group) => summaries(group, metric));
  const better = several.flat()[0]?.variant.better ?? 0;
  const head = element("th", metric + arrow(better));
  head.scope = "row";
  line.append(head);
  groups.forEach((group, place) => {
    const cell = entryOf(group, { metric, seed: null }, marks);
    if (place) cell.append(element("small", differenceTo(several[0], several[place]), "difference"));
    const theirs = publishedFor(group, metric);
    if (theirs) cell.append(publishedNote(theirs, several[place][0]));
    line.append(cell);
  });
  return line;
}

// The difference from the first cell, if both have a single comparable number.
function differenceTo(first, other) {
  if (!first.length || !other.length) return "";
  if (first.length > 1 || other.length > 1) return "seeds differ in kind";
  const [a, b] = [first[0], other[0]];
  const unlike = ["kind", "signature", "unit"].filter((name) => a.variant[name] !== b.variant[name]);
  if (unlike.length) return `different ${unlike.join(" and ")}`;
  const words = signed(b.mean - a.mean, Math.max(a.variant.digits, b.variant.digits));
  return a.mark === b.mark ? words : `${words}, different examples`;
}

function publishedNote({ mean: middle, deviation: spread, source }, ours) {
  const digits = Math.max(ours?.variant.digits ?? 2, ...[middle, spread ?? 0].map((one) => (String(one).split(".")[1] ?? "").length));
  return element("small", `published ${rounded(middle, digits)}${spread === null ? "" : ` ± ${rounded(spread, digits)}`} (${source})`, "published");
}

function comparisonNotes(marks) {
  const list = element("ul", "", "notes");
  list.append(element("li", "Below a number: its difference from A. To test a difference, run bench diff."));
  return [list, ...legend(marks, 0)];
}

// The commands that test the differences between the first cell and the others of its run.
function commands(groups) {
  const [first, ...others] = groups;
  const made = others.map((other, place) => [capital(place + 1), commandFor(first, other)]);
  const details = element("div", "", "commands");
  details.append(element("p", "Commands for the tests, in the viewed folder:"));
  for (const [letter, { command, why }] of made) {
    const line = element("p", `A and ${letter}: ${why ?? ""}`);
    if (command) line.append(element("code", command));
    details.append(line);
  }
  return [details];
}

function commandFor(a, b) {
  if (a.run !== b.run) return { why: "bench diff compares cells of one run; see bench merge." };
  if (a.run.kind !== "run") return { why: "the run is not in this folder." };
  const words = ["bench", "diff", a.run.name.replace(/^-/, "./-"), filterFor(a), filterFor(b)];
  if (words.some((word) => /\[U\+[0-9A-F]{4,6}\]/.test(word))) return { why: "a name has invisible characters." };
  return { command: words.map(quoted).join(" ") };
}

// The names of a group on the axes that have several names in its run.
function filterFor(group) {
  const chosen = AXES.flatMap((axis, place) => (group.run.axes[axis].length > 1 ? [`${axis}=${group.names[place]}`] : []));
  return chosen.join(",");
}

// A word quoted for the shell.
const quoted = (word) => (/^[\w./=,@:+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);
