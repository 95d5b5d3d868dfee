// The state of the page: filters, columns and selection, stored in the address after `#` so that it can be shared.

const AXES = ["task", "model", "decoder", "split", "hardware"];
const LISTS = ["metric", "run", "cell"]; // with several values
const WORDS = ["q", "suite", "profile", ...AXES, "status", "columns", "order", "sort", "base", "curve"];
const COLUMNS = ["metrics", "runs", "seeds"];
const state = fromAddress("");

function fromAddress(hash) {
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  const found = {};
  for (const word of WORDS) found[word] = given.get(word) ?? "";
  for (const list of LISTS) found[list] = [...new Set(given.getAll(list))];
  if (!COLUMNS.includes(found.columns)) found.columns = "metrics";
  return found;
}

function toAddress(shown) {
  const found = new URLSearchParams();
  for (const word of WORDS) if (shown[word] && !(word === "columns" && shown[word] === "metrics")) found.set(word, shown[word]);
  for (const list of LISTS) for (const one of shown[list]) found.append(list, one);
  const text = found.toString();
  return text && `#${text}`;
}

function saveState() {
  const address = toAddress(state);
  if (location.hash !== address) history.replaceState(null, "", address || location.pathname + location.search);
}
