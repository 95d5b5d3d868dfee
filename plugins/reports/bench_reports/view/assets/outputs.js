// Outputs of the selected cells side by side for each example, with differing words marked.

const EXAMPLES = 10; // shown initially

// Outputs by example: task, split, id, prompt and reference, which may differ between runs.
function examplesOf(groups) {
  const found = new Map();
  groups.forEach((group, letter) => {
    const { samples, texts } = dataOf(group);
    for (const [place, id, prompt, reference, output, finished, tokens] of samples) {
      if (place !== group.place) continue;
      const [task, , , split] = group.names;
      const key = JSON.stringify([task, split, id, texts[prompt], texts[reference]]);
      if (!found.has(key)) found.set(key, { name: `${task} / ${split}, example ${id}`, prompt: texts[prompt], reference: texts[reference], outputs: [] });
      found.get(key).outputs.push({ letter, group, text: texts[output], finished, tokens });
    }
  });
  return [...found.values()].sort((a, b) => b.outputs.length - a.outputs.length || collator.compare(a.name, b.name));
}

function renderOutputs(box, groups) {
  const examples = examplesOf(groups);
  if (!examples.length) {
    const hint = groups.length ? "The runs have no outputs of the selected cells." : "Select cells in the table above.";
    box.replaceChildren(element("p", hint, "hint"));
    return;
  }
  const without = groups.flatMap((group, place) => (examples.some((one) => one.outputs.some((output) => output.group === group)) ? [] : [capital(place)]));
  const bases = [["", "the reference, or the first"], ...groups.map((group, place) => [group.id, capital(place)]), ["none", "nothing"]];
  const select = choice("base", bases);
  select.value = bases.some(([one]) => one === state.base) ? state.base : "";
  select.addEventListener("change", () => {
    state.base = select.value;
    saveState();
    list.replaceChildren();
    show();
  });
  const controls = element("div", "", "controls small");
  controls.append(labelled("mark words that differ from", select));
  const list = element("div");
  const more = element("button", "", "more");
  more.type = "button";
  const show = () => {
    list.append(...examples.slice(list.children.length, list.children.length + EXAMPLES).map((one) => exampleOf(one, state.base)));
    more.hidden = list.children.length >= examples.length;
    more.textContent = `Show more of ${counted(examples.length, "example")}`;
  };
  more.addEventListener("click", show);
  const notes = element("p", `First seed only.${without.length ? ` The runs have no outputs of ${without.join(", ")}.` : ""}`, "hint");
  box.replaceChildren(notes, controls, list, more);
  show();
}

function exampleOf(example, base) {
  const made = element("div", "", "example");
  const given = element("dl", "", "given");
  for (const name of ["prompt", "reference"]) {
    if (!example[name]) continue;
    const line = element("div");
    const words = element("dd", example[name]);
    words.dir = "auto";
    line.append(element("dt", name), words);
    given.append(line);
  }
  const beside = element("div", "", "beside");
  beside.append(...example.outputs.map((output) => outputOf(output, baseOf(example, base))));
  const heading = element("h3");
  heading.append(element("bdi", example.name));
  made.append(heading, given, beside);
  return made;
}

// The text that outputs are compared with, and its owner.
function baseOf(example, base) {
  if (base === "none") return null;
  const chosen = example.outputs.find((one) => one.group.id === base);
  if (chosen) return { text: chosen.text, of: capital(chosen.letter), group: chosen.group };
  if (example.reference) return { text: example.reference, of: "the reference" };
  const [first] = example.outputs;
  return { text: first.text, of: capital(first.letter), group: first.group };
}

function outputOf({ letter, group, text: content, finished, tokens }, base) {
  const made = element("article");
  const heading = element("h4");
  heading.append(element("b", capital(letter)), " ", element("bdi", group.names.filter((name) => name !== "default").slice(1, 3).join(" / ")));
  const facts = [finished ? "finished" : "truncated at the limit"];
  if (Number.isInteger(tokens)) facts.push(counted(tokens, "token"));
  const body = element("p", "", "text");
  body.dir = "auto";
  if (!content) body.append(element("em", "(empty)"));
  else if (!base || base.group === group) body.append(content);
  else {
    const found = compare(content, base.text);
    body.append(marked(found.a, found.kept, "ins"));
    facts.push(found.whole ? `${found.kept.size} of ${counted(found.a.length, found.unit)} in common with ${base.of}` : "too long to compare");
  }
  made.append(heading, element("p", facts.join(" · "), "meta"), body);
  return made;
}
