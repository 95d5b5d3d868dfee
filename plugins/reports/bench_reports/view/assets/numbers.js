// Means and standard deviations over seeds, and number formatting.

const WRITTEN = { inf: Infinity, "-inf": -Infinity, nan: NaN };

function mean(values) {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

// Sample standard deviation (n - 1); null for a single value or non-finite values.
function deviation(values) {
  if (values.length < 2 || !values.every(Number.isFinite)) return null;
  const middle = mean(values);
  return Math.sqrt(values.reduce((sum, value) => sum + (value - middle) ** 2, 0) / (values.length - 1));
}

function rounded(value, digits) {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const size = Math.abs(value);
  const written = toEven((places) => (size >= 1e10 ? size.toExponential(places) : size.toFixed(places)), digits);
  return value < 0 && Number(written) ? `−${written}` : written;
}

// A number formatted as in Python: ties are rounded to even.
function toEven(write, digits) {
  const [mantissa, ...power] = write(100).split("e"); // all digits
  const end = mantissa.length - 100 + digits;
  const kept = mantissa.slice(0, end);
  const even = /^50*$/.test(mantissa.slice(end)) && /[02468]\.?$/.test(kept);
  return even ? [kept.replace(/\.$/, ""), ...power].join("e") : write(digits);
}

function signed(value, digits) {
  const written = rounded(value, digits);
  return value > 0 && /[1-9∞]/.test(written) ? `+${written}` : written;
}

// The numbers of a group averaged over seeds, separately for each kind, signature and unit.
function summaries(group, metric, seed = null) {
  const found = new Map();
  for (const cell of group.cells) {
    const number = seed === null || cell.seed === seed ? numberIn(group, cell, metric) : null;
    if (!number) continue;
    const { variant, value } = number;
    if (!found.has(variant.alike)) found.set(variant.alike, { variant, values: [], samples: new Set(), examples: new Set() });
    const one = found.get(variant.alike);
    one.values.push(value);
    one.samples.add(variant.sample);
    one.examples.add(variant.examples);
  }
  return [...found.values()].map((one) => ({
    ...one,
    mean: mean(one.values),
    deviation: deviation(one.values),
    mark: [one.variant.alike, [...one.samples].sort(), [...one.examples].sort()].join("\n"),
  }));
}

function written({ variant, mean: middle, deviation: spread }) {
  const before = variant.kind === "bound" ? (variant.better > 0 ? "≥ " : "≤ ") : variant.kind === "estimate" ? "~ " : "";
  return before + rounded(middle, variant.digits) + (spread === null ? "" : ` ± ${rounded(spread, variant.digits)}`);
}

const arrow = (better) => (better > 0 ? " ↑" : better < 0 ? " ↓" : "");
const counted = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
const some = (values) => [...values].sort((a, b) => a - b).map((one) => one.toLocaleString("en")).join(", ");

// Letters for numbers that differ in kind, signature, unit or examples; empty if all numbers of a metric are alike.
class Marks {
  constructor() {
    this.known = new Map();
    this.seeds = new Set(); // numbers of seeds in means
  }

  add(found, averaged = true) {
    for (const one of found) {
      if (averaged) this.seeds.add(one.values.length);
      const { metric } = one.variant;
      if (!this.known.has(metric)) this.known.set(metric, new Map());
      if (!this.known.get(metric).has(one.mark)) this.known.get(metric).set(one.mark, one);
    }
  }

  letter(one) {
    const known = this.known.get(one.variant.metric);
    return known.size < 2 ? "" : letterOf([...known.keys()].indexOf(one.mark));
  }

  first(metric) {
    return this.known.get(metric)?.values().next().value.variant;
  }

  arrow(metric) {
    return arrow(this.first(metric)?.better ?? 0);
  }

  // The unit of a metric, if all numbers have the same unit.
  unit(metric) {
    const units = new Set([...(this.known.get(metric)?.values() ?? [])].map((one) => one.variant.unit));
    return units.size === 1 ? [...units][0] : "";
  }

  // Descriptions of metrics and letters.
  notes() {
    return [...this.known].map(([metric, known]) => {
      const { better } = this.first(metric);
      const way = better > 0 ? "higher is better" : better < 0 ? "lower is better" : "";
      const head = [this.unit(metric), way].filter(Boolean).join(", ");
      const samples = new Set([...known.values()].map((one) => [...one.samples].join()));
      const unlike = { unit: !this.unit(metric), sample: samples.size > 1 };
      const parts = [...known.values()].map((one) => [this.letter(one), describe(one, unlike)]);
      return { metric: `${metric}${arrow(better)}${head && ` (${head})`}`, parts };
    });
  }
}

function describe({ variant, samples, examples }, unlike) {
  const kinds = { exact: "exact likelihood", bound: "likelihood bound", estimate: "likelihood estimate" };
  const words = [unlike.unit && variant.unit, kinds[variant.kind] ?? variant.kind, `over ${some(examples)} examples`];
  if (unlike.sample) words.push(samples.size > 1 ? "different between seeds" : `sample ${[...samples][0] || "unknown"}`);
  words.push(variant.signature ? `signature ${variant.signature}` : "no signature");
  return words.filter(Boolean).join(", ");
}

function letterOf(place) {
  return (place >= 26 ? letterOf(Math.floor(place / 26) - 1) : "") + String.fromCharCode(97 + (place % 26));
}
