// The data of runs, unpacked when their cells are first shown.
//
// A group has the cells of all seeds of a task, model, decoder, split and hardware.

const RUNS = JSON.parse(document.getElementById("runs-data").textContent);
const STATUSES = ["done", "failed", "not run"];
const loading = new Map();
const loaded = new Map();

RUNS.forEach((run, place) => {
  run.place = place;
  run.label = RUNS.filter((other) => other.short === run.short).length > 1 ? run.name : run.short;
  run.words = [run.name, run.title, run.suite, run.profile, run.date, run.version, run.computed, run.problem].join(" ").toLowerCase();
});

function load(run) {
  if (!loading.has(run.place)) loading.set(run.place, unpack(run).then((data) => loaded.set(run.place, data)));
  return loading.get(run.place);
}

async function unpack(run) {
  const block = document.getElementById(`data-${run.place}`);
  const data = block ? JSON.parse(await text(block.textContent)) : { groups: [], cells: [], variants: [] };
  const groups = data.groups.map((names, place) => ({ run, names, place, cells: [], id: JSON.stringify([run.name, ...names]) }));
  const variants = data.variants.map(([metric, unit, kind, signature, sample, examples, better, digits]) => (
    { metric, unit, kind, signature, sample, examples, better, digits, alike: [kind, signature, unit].join("\n") }));
  for (const [group, seed, status, reason, curve, values, missing] of data.cells) {
    groups[group].cells.push({ seed, status: STATUSES[status], reason: data.reasons[reason], curve, values, missing });
  }
  return { ...data, groups: groups.filter((one) => one.cells.length), every: groups, variants };
}

async function text(letters) {
  const bytes = Uint8Array.from(atob(letters), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

const dataOf = (group) => loaded.get(group.run.place);

// The number of a metric in a cell, or nothing.
function numberIn(group, cell, metric) {
  const { variants } = dataOf(group);
  for (let place = 0; place < cell.values.length; place += 2) {
    const variant = variants[cell.values[place]];
    if (variant.metric === metric) return { variant, value: Number(WRITTEN[cell.values[place + 1]] ?? cell.values[place + 1]) };
  }
  return null;
}

// Why a cell has no number of a metric: the metric's reason, or the cell's.
function reasonIn(group, cell, metric) {
  const place = cell.missing.indexOf(metric);
  const own = place < 0 ? "" : dataOf(group).reasons[cell.missing[place + 1]];
  return own && own !== "not run" ? own : cell.reason;
}

function publishedFor(group, metric) {
  const found = dataOf(group).published.find(([place, name]) => place === group.place && name === metric);
  return found && { mean: Number(WRITTEN[found[2]] ?? found[2]), deviation: found[3], source: found[4] };
}
