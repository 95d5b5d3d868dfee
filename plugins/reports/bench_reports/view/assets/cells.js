// The table of cells: a row for each group of seeds, with metrics, runs or seeds as columns.

const ROWS = 200; // shown initially, and added by each click
const NOTES = 8; // more notes are collapsed

// Return the rows and columns of a table.
function tableOf(groups, metrics) {
  if (state.columns === "runs") return byRun(groups, metrics);
  const rows = groups.map((group) => ({ groups: [group], group }));
  if (state.columns === "metrics") return { rows, columns: metrics.map((metric) => ({ id: metric, metric, seed: null })) };
  const seeds = unique(groups.flatMap((group) => group.cells.map((cell) => cell.seed))).sort((a, b) => a - b);
  const columns = metrics.flatMap((metric) => [null, ...seeds].map((seed) => (
    { id: `${metric}\n${seed}`, metric, seed, above: seed === null ? "all seeds" : `seed ${seed}` })));
  return { rows, columns };
}

function byRun(groups, metrics) {
  const rows = new Map();
  for (const group of groups) {
    const key = JSON.stringify(group.names);
    if (!rows.has(key)) rows.set(key, { groups: [], group });
    rows.get(key).groups.push(group);
  }
  const runs = unique(groups.map((group) => group.run));
  const columns = metrics.flatMap((metric) => runs.filter((run) => run.metrics.includes(metric)).map((run) => (
    { id: `${metric}\n${run.name}`, metric, seed: null, run, above: run.label })));
  return { rows: [...rows.values()], columns };
}

const groupIn = (row, column) => (column.run ? row.groups.find((one) => one.run === column.run) : row.group);

function renderCells(box, groups, metrics, selectionChanged) {
  const { rows, columns } = tableOf(groups, metrics);
  const marks = new Marks();
  for (const row of rows) {
    for (const column of columns) {
      const group = groupIn(row, column);
      if (group) marks.add(summaries(group, column.metric, column.seed), column.seed === null);
    }
  }
  const names = namesThatDiffer(groups);
  const table = element("table", "", "right");
  table.id = "cells-of-runs";
  table.createCaption().textContent = "Cells of the runs shown";
  table.append(headOf(columns, marks, () => renderCells(box, groups, metrics, selectionChanged)));
  const body = table.createTBody();
  const sorted = inOrder(rows, columns, names);
  const more = element("button", "", "more");
  const grow = () => {
    for (const row of sorted.slice(body.rows.length, body.rows.length + ROWS)) {
      body.append(rowOf(row, columns, names, marks, selectionChanged));
    }
    more.hidden = body.rows.length >= sorted.length;
    more.textContent = `Show ${Math.min(ROWS, sorted.length - body.rows.length)} more of ${counted(sorted.length, "row")}`;
  };
  more.type = "button";
  more.addEventListener("click", grow);
  grow();
  const focused = box.contains(document.activeElement) ? document.activeElement.dataset.id : undefined;
  refill(box, ...common(groups, names), scrolling(table, "Cells"), more, ...legend(marks), missing(groups, metrics));
  if (focused !== undefined) [...box.querySelectorAll("th button")].find((one) => one.dataset.id === focused)?.focus();
}

// Replace the content of a box; open details stay open.
function refill(box, ...content) {
  const open = [...box.querySelectorAll("details[open]")].map((one) => one.className);
  box.replaceChildren(...content);
  for (const one of box.querySelectorAll("details")) one.open = open.includes(one.className);
}

// The axes on which the names of cells differ.
function namesThatDiffer(groups) {
  const differing = AXES.map((_, place) => new Set(groups.map((group) => group.names[place])).size > 1);
  const runs = state.columns !== "runs" && new Set(groups.map((group) => group.run)).size > 1;
  const any = differing.includes(true);
  return { any: runs || any, differing: any || runs ? differing : AXES.map(() => true), runs };
}

function nameOf(group, { differing }) {
  return group.names.filter((name, place) => differing[place] && name !== "default").join(" / ");
}

function common(groups, { differing, any }) {
  if (!any) return [];
  const alike = AXES.flatMap((axis, place) => (differing[place] || groups[0].names[place] === "default" ? [] : [`${axis} ${groups[0].names[place]}`]));
  const about = element("p", "", "hint");
  about.append("All: ", element("bdi", alike.join(", ")));
  return alike.length ? [about] : [];
}

function headOf(columns, marks, render) {
  const head = element("thead");
  const line = head.insertRow();
  for (const column of [{ id: "", metric: "cell" }, ...columns]) {
    const cell = element("th");
    cell.scope = "col";
    const button = element("button");
    button.type = "button";
    button.dataset.id = column.id;
    if (column.above) button.append(element("small", column.above, "above"));
    button.append(element("bdi", column.metric + marks.arrow(column.metric)));
    if (marks.unit(column.metric)) button.append(element("small", ` ${marks.unit(column.metric)}`));
    cell.append(button);
    cell.setAttribute("aria-sort", state.sort === column.id && state.order ? state.order : "none");
    button.addEventListener("click", () => {
      const next = state.sort === column.id ? { "": "ascending", ascending: "descending", descending: "" }[state.order] : "ascending";
      Object.assign(state, { sort: column.id, order: next ?? "" });
      saveState();
      render();
    });
    line.append(cell);
  }
  return head;
}

// Rows in suite order, or sorted by a column with missing values last.
function inOrder(rows, columns, names) {
  if (!state.order) return rows;
  const column = columns.find((one) => one.id === state.sort);
  const key = (row) => {
    if (!column) return [row.group.run.label, nameOf(row.group, names)].join(" ");
    const group = groupIn(row, column);
    const value = group && summaries(group, column.metric, column.seed)[0]?.mean;
    return value === undefined || Number.isNaN(value) ? null : value;
  };
  const keyed = rows.map((row) => [key(row), row]);
  const present = keyed.filter(([one]) => one !== null);
  const sign = state.order === "ascending" ? 1 : -1;
  present.sort(([a], [b]) => sign * (column ? (a === b ? 0 : a - b) : collator.compare(a, b)));
  return [...present, ...keyed.filter(([one]) => one === null)].map(([, row]) => row);
}

function rowOf(row, columns, names, marks, selectionChanged) {
  const made = element("tr");
  const head = element("th");
  head.scope = "row";
  const label = element("label");
  const box = element("input");
  box.type = "checkbox";
  box.dataset.ids = JSON.stringify(row.groups.map((one) => one.id));
  box.checked = row.groups.every((one) => state.cell.includes(one.id));
  box.addEventListener("change", () => selectionChanged(row.groups.map((one) => one.id), box.checked));
  const words = element("span");
  words.append(element("bdi", nameOf(row.group, names) || row.group.run.label));
  if (names.runs) words.append(element("small", row.group.run.label));
  label.append(box, words);
  head.append(label);
  made.append(head, ...columns.map((column) => entryOf(groupIn(row, column), column, marks)));
  return made;
}

function entryOf(group, { metric, seed }, marks) {
  const cell = element("td");
  const found = group ? summaries(group, metric, seed) : [];
  found.forEach((one, place) => {
    if (place) cell.append(element("br"));
    cell.append(written(one), ...raised(marks.letter(one)));
    if (marks.seeds.size > 1 && seed === null) cell.append(element("small", ` (${one.values.length})`));
  });
  if (!found.length) Object.assign(cell, lacking(group, metric, seed));
  else if (seed === null && lackingSeeds(group, metric)) cell.append(element("small", ` ${lackingSeeds(group, metric)} missing`, "bad"));
  return cell;
}

const raised = (letter) => (letter ? [element("sup", letter)] : []);
const cellsOf = (group, seed) => group.cells.filter((one) => seed === null || one.seed === seed);

// The number of cells that lack a metric.
function without(group, metric, seed = null) {
  return cellsOf(group, seed).filter((cell) => !numberIn(group, cell, metric) && (cell.status !== "done" || cell.missing.includes(metric)));
}

function lackingSeeds(group, metric) {
  return without(group, metric).length;
}

function lacking(group, metric, seed) {
  const cells = group ? without(group, metric, seed) : [];
  if (!cells.length) return { textContent: "–", className: "none" };
  const status = cells.find((cell) => cell.status !== "done")?.status ?? "failed";
  return { textContent: status, className: status.replace(" ", "-"), title: reasonIn(group, cells[0], metric) };
}

function scrolling(table, words) {
  const box = element("div", "", "box");
  box.tabIndex = 0;
  box.setAttribute("role", "region");
  box.setAttribute("aria-label", words);
  box.append(table);
  return box;
}

// Notes on numbers and letters.
function legend(marks, most = NOTES) {
  const list = element("ul", "", "notes");
  const counts = [...marks.seeds];
  if (counts.length === 1) list.append(element("li", counts[0] === 1 ? "One seed each." : `Mean ± standard deviation over ${counts[0]} seeds.`));
  if (counts.length > 1) list.append(element("li", "Mean ± standard deviation over seeds; the number of seeds is in parentheses."));
  for (const { metric, parts } of marks.notes()) {
    const item = element("li", `${metric}: `);
    parts.forEach(([letter, words], place) => {
      if (letter) item.append(place ? "; " : "numbers differ: ", element("b", letter), " ");
      item.append(element("bdi", words));
    });
    item.append(".");
    list.append(item);
  }
  if (list.children.length <= most) return list.children.length ? [list] : [];
  const details = element("details", "", "meaning");
  details.append(element("summary", "Explanation of numbers and letters"), list);
  return [details];
}

// All reasons why cells have no number, with the cells' names.
function missing(groups, metrics) {
  const found = new Map();
  for (const group of groups) {
    for (const cell of group.cells) {
      if (cell.status !== "done") note(found, cell.status, cell.reason, group, cell);
      else for (const metric of metrics) if (cell.missing.includes(metric)) note(found, "no number", `${metric}: ${reasonIn(group, cell, metric)}`, group, cell);
    }
  }
  const details = element("details", "", "missing");
  details.hidden = !found.size;
  const number = unique([...found.values()].flatMap((one) => one.cells)).length;
  details.append(element("summary", `Failed and missing: ${counted(number, "cell")}`));
  const list = element("dl", "", "facts");
  for (const { status, reason, cells } of found.values()) {
    const line = element("div");
    const shown = cells.slice(0, 50);
    const rest = cells.length > shown.length ? `; and ${counted(cells.length - shown.length, "more cell")}` : "";
    line.append(element("dt", `${status}: ${reason || "reason unknown"}`), element("dd", shown.join("; ") + rest));
    list.append(line);
  }
  details.append(list);
  return details;
}

function note(found, status, reason, group, cell) {
  const key = `${status}\n${reason}`;
  if (!found.has(key)) found.set(key, { status, reason, cells: [] });
  found.get(key).cells.push(`${group.run.label}: ${group.names.filter((name) => name !== "default").join("/")}, seed ${cell.seed}`);
}
