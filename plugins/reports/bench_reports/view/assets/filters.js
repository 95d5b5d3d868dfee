// Filters of runs and cells by words and by names on the axes.
//
// All words separated by spaces must match; `a|b` matches either word, and `-a` must not match.

const FIELDS = { suite: (run) => [run.suite], profile: (run) => [run.profile || "none"] };
for (const axis of AXES) FIELDS[axis] = (run) => run.axes[axis];

const collator = new Intl.Collator("en", { numeric: true });
const unique = (values) => [...new Set(values)];

function buildFilters(form) {
  const search = element("input");
  Object.assign(search, { type: "search", name: "q", placeholder: "words, a|b, -not", spellcheck: false });
  form.append(labelled("Search", search));
  for (const [name, valuesOf] of Object.entries(FIELDS)) {
    const names = unique(RUNS.flatMap(valuesOf)).filter(Boolean).sort(collator.compare);
    if (names.length < 2 && !state[name]) continue;
    form.append(labelled(name, choice(name, [["", "all"], ...names.map((one) => [one, one])])));
  }
  form.append(labelled("state", choice("status", [["", "all"], ...STATUSES.map((one) => [one, one])])));
  const reset = element("button", "Reset filters");
  reset.type = "reset";
  form.append(reset);
  form.addEventListener("submit", (event) => event.preventDefault());
}

function labelled(words, control) {
  const label = element("label", `${words[0].toUpperCase()}${words.slice(1)}`);
  label.append(control);
  return label;
}

function choice(name, options) {
  const select = element("select");
  select.name = name;
  for (const [value, words] of options) {
    const option = element("option", words);
    option.value = value;
    select.append(option);
  }
  return select;
}

// Update the controls of a form from the state; names that no run has remain options.
function showFilters(form) {
  for (const control of form.elements) {
    if (!control.name) continue;
    const value = state[control.name];
    if (control.options && ![...control.options].some((one) => one.value === value)) control.append(new Option(value, value));
    if (control.value !== value) control.value = value;
  }
}

const activeFilters = () => ["q", "status", ...Object.keys(FIELDS)].filter((name) => state[name]).length;

function searched(words, least = words) {
  return state.q.toLowerCase().split(/\s+/).filter(Boolean).every((token) => {
    const without = token.startsWith("-") && token.length > 1;
    const any = (without ? token.slice(1) : token).split("|").filter(Boolean);
    return any.some((one) => (without ? least : words).includes(one)) !== without || !any.length;
  });
}

const measures = (run) => !state.metric.length || state.metric.some((one) => run.metrics.includes(one));

function runPasses(run) {
  if (state.status && !run.counts[STATUSES.indexOf(state.status)]) return false;
  if (!Object.entries(FIELDS).every(([name, valuesOf]) => !state[name] || valuesOf(run).includes(state[name]))) return false;
  const names = [...AXES.flatMap((axis) => run.axes[axis]), ...run.metrics].join(" ").toLowerCase();
  return searched(`${run.words} ${names}`, run.words);
}

function groupPasses(group) {
  if (!AXES.every((axis, place) => !state[axis] || group.names[place] === state[axis])) return false;
  if (state.status && !group.cells.some((cell) => cell.status === state.status)) return false;
  return searched(`${group.run.words} ${group.names.join(" ")} ${group.run.metrics.join(" ")}`.toLowerCase());
}
