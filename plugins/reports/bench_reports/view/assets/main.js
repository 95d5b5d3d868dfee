// The page: each change is saved to the address, then everything is rendered again.

const MOST_GROUPS = 5000; // rows up to which runs are unpacked automatically
const byId = (id) => document.getElementById(id);
const form = document.querySelector("#filters form");
const items = [...document.querySelectorAll(".runs > li")];
let turn = 0;

function begin() {
  Object.assign(state, fromAddress(location.hash.includes("=") ? location.hash : ""));
  buildFilters(form);
  form.addEventListener("input", () => {
    for (const control of form.elements) if (control.name) state[control.name] = control.value;
    update();
  });
  form.addEventListener("reset", (event) => {
    event.preventDefault();
    for (const name of ["q", "status", ...Object.keys(FIELDS)]) state[name] = "";
    update();
  });
  window.addEventListener("hashchange", () => {
    if (!location.hash.includes("=") && location.hash) return; // a section
    Object.assign(state, fromAddress(location.hash));
    update();
  });
  window.addEventListener("resize", () => requestAnimationFrame(() => document.querySelector("#comparison-content > :last-child")?.redraw?.()));
  items.forEach(addPicker);
  buildControls();
  for (const id of ["sections", "filters", "run-controls", "cells", "comparison", "outputs"]) byId(id).hidden = false;
  byId("filters").open = activeFilters() > 0 || window.matchMedia("(min-width: 45rem)").matches;
  document.querySelectorAll("#sections a, a.skip").forEach((link) => link.addEventListener("click", goTo));
  if (typeof DecompressionStream === "undefined") warn("This browser is too old to show cells; only the list of runs works.");
  else update();
}

function warn(message) {
  Object.assign(byId("warning"), { textContent: message, hidden: !message });
}

// Go to a section without changing the state in the address.
function goTo(event) {
  event.preventDefault();
  const section = document.querySelector(event.currentTarget.getAttribute("href"));
  section.scrollIntoView();
  section.focus({ preventScroll: true });
}

// A checkbox for each run, to show its cells in the table.
function addPicker(item, place) {
  const run = RUNS[place];
  const box = element("input");
  box.type = "checkbox";
  box.disabled = !run.groups;
  box.setAttribute("aria-label", `Show the cells of ${run.label}`);
  box.addEventListener("change", () => {
    state.run = state.run.filter((name) => name !== run.name).concat(box.checked ? [run.name] : []);
    update();
  });
  item.prepend(box);
}

function buildControls() {
  byId("run-controls").append(
    button("Select all listed", () => RUNS.filter((run) => run.groups && runPasses(run) && measures(run)).map((run) => run.name)),
    button("Select none", () => []),
  );
  const columns = choice("columns", COLUMNS.map((one) => [one, one]));
  columns.addEventListener("change", () => {
    Object.assign(state, { columns: columns.value, sort: "", order: "" });
    update();
  });
  const metrics = element("details", "", "metrics");
  metrics.append(element("summary"), element("fieldset"));
  byId("cell-controls").append(labelled("columns", columns), metrics);
}

// A button that selects runs by name.
function button(words, names) {
  const made = element("button", words);
  made.type = "button";
  made.addEventListener("click", () => {
    state.run = names();
    update();
  });
  return made;
}

function showMetrics(names) {
  const details = document.querySelector("#cell-controls .metrics");
  const chosen = state.metric.filter((one) => names.includes(one));
  details.querySelector("summary").textContent = `Metrics: ${chosen.length ? `${chosen.length} of ${names.length}` : `all ${names.length}`}`;
  const set = details.querySelector("fieldset");
  const known = [...set.querySelectorAll("input")].map((box) => box.value);
  if (known.join("\n") !== names.join("\n")) set.replaceChildren(element("legend", "Metrics to show", "unseen"), ...names.map(metricBox));
  for (const box of set.querySelectorAll("input")) box.checked = state.metric.includes(box.value);
}

function metricBox(name) {
  const label = element("label");
  const box = element("input");
  Object.assign(box, { type: "checkbox", value: name });
  box.addEventListener("change", () => {
    state.metric = state.metric.filter((one) => one !== name).concat(box.checked ? [name] : []);
    update();
  });
  label.append(box, element("bdi", name));
  return label;
}

async function update() {
  turn += 1;
  const mine = turn;
  saveState();
  showFilters(form);
  document.querySelector("#cell-controls select").value = state.columns;
  const filtered = RUNS.filter(runPasses);
  const passing = filtered.filter(measures);
  showRuns(passing);
  const { runs, why } = runsOfCells(passing);
  const selected = RUNS.filter((run) => state.cell.some((id) => id.startsWith(`[${JSON.stringify(run.name)},`)));
  try {
    await Promise.all([...runs, ...selected].map(load));
  } catch (error) {
    warn(`The data of a run cannot be unpacked: ${error.message}.`);
    return;
  }
  if (mine !== turn) return; // the selection has changed in the meantime
  const offered = (state.metric.length && !state.run.length ? filtered : runs).flatMap((run) => run.metrics);
  showMetrics(unique([...offered, ...state.metric]));
  showCells(runs, why);
  showSelected();
}

function showRuns(passing) {
  const shown = new Set(passing.map((run) => run.place));
  items.forEach((item, place) => {
    item.hidden = !shown.has(place);
    item.querySelector("input").checked = state.run.includes(RUNS[place].name);
  });
  const some = passing.length === RUNS.length ? `${RUNS.length}` : `${passing.length} of ${RUNS.length}`;
  byId("runs-count").textContent = some;
  const active = activeFilters();
  byId("filtered").textContent = active ? `(${active} active)` : "";
}

// The runs whose cells are shown: the selected runs, or the filtered runs, or the runs of the newest suite.
// Without a selection, the number of cells is limited.
function runsOfCells(passing) {
  const full = passing.filter((run) => run.groups);
  const chosen = full.filter((run) => state.run.includes(run.name));
  if (chosen.length) return { runs: chosen, why: "" };
  const narrowed = activeFilters() || state.metric.length;
  const wanted = narrowed ? full : full.filter((run) => run.suite === full[0].suite);
  let number = 0;
  const runs = wanted.filter((run, place) => {
    number += run.groups;
    return !place || number <= MOST_GROUPS;
  });
  const left = full.length - runs.length;
  const which = runs.length < wanted.length || narrowed ? "the first" : `the suite ${full[0]?.suite}`;
  return { runs, why: left ? ` (${which} of ${counted(full.length, "run")}; select others above, or filter)` : "" };
}

function chosenMetrics(groups) {
  const known = unique(groups.flatMap((group) => group.run.metrics));
  const chosen = known.filter((one) => state.metric.includes(one));
  return chosen.length ? chosen : known;
}

function showCells(runs, why) {
  const groups = runs.flatMap((run) => loaded.get(run.place).groups).filter(groupPasses);
  byId("cells-count").textContent = `${counted(groups.length, "row")} of ${counted(runs.length, "run")}${why}`;
  const box = byId("cells-table");
  if (groups.length) renderCells(box, groups, chosenMetrics(groups), select);
  else box.replaceChildren(element("p", RUNS.some((run) => run.groups) ? "No cells match the filters." : "The runs have no cells.", "hint"));
}

function select(ids, chosen) {
  state.cell = state.cell.filter((id) => !ids.includes(id)).concat(chosen ? ids : []);
  saveState();
  showSelected();
}

// Show the comparison of the selected cells; the table of cells keeps its content and focus.
function showSelected() {
  const every = new Map([...loaded.values()].flatMap((data) => data.groups.map((group) => [group.id, group])));
  const groups = state.cell.map((id) => every.get(id)).filter(Boolean);
  byId("selected").textContent = groups.length ? `(${groups.length})` : "";
  for (const box of document.querySelectorAll("#cells-of-runs tbody input")) {
    box.checked = JSON.parse(box.dataset.ids).every((id) => state.cell.includes(id));
  }
  const remove = (ids) => {
    select(ids, false);
    byId("comparison").focus({ preventScroll: true });
  };
  renderComparison(byId("comparison-content"), groups, chosenMetrics(groups), remove);
  renderOutputs(byId("outputs-content"), groups);
}

begin();
