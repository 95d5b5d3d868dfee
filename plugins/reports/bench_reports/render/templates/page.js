(() => {
  const NEXT = { none: "ascending", ascending: "descending", descending: "none" };
  const SHOWN = 300; // characters of an output in the list of all outputs
  const collator = new Intl.Collator("en", { numeric: true });
  const byId = (id) => document.getElementById(id);

  // Tables: a click on a heading sorts ascending, descending, then in the original order; missing values stay last.
  function makeSortable(table) {
    const body = table.tBodies[0];
    const heads = [...table.tHead.rows[table.tHead.rows.length - 1].cells];
    const rows = [...body.rows];
    if (rows.length < 2) return;
    heads.forEach((head, place) => {
      if (!head.textContent.trim()) return;
      const button = element("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      head.setAttribute("aria-sort", "none");
      button.addEventListener("click", () => {
        const way = NEXT[head.getAttribute("aria-sort")];
        for (const other of heads) if (other.hasAttribute("aria-sort")) other.setAttribute("aria-sort", "none");
        head.setAttribute("aria-sort", way);
        const sorted = document.createDocumentFragment();
        sorted.append(...(way === "none" ? rows : inOrder(rows, place, way === "ascending" ? 1 : -1)));
        body.append(sorted);
      });
    });
  }

  function inOrder(rows, place, sign) {
    const numeric = rows.some((row) => "value" in row.cells[place].dataset);
    const keyed = rows.map((row) => [keyOf(row.cells[place], numeric), row]);
    const present = keyed.filter(([key]) => key !== null);
    present.sort(([a], [b]) => sign * (numeric ? a - b || 0 : collator.compare(a, b)));
    return [...present, ...keyed.filter(([key]) => key === null)].map(([, row]) => row);
  }

  function keyOf(cell, numeric) {
    if (numeric) return "value" in cell.dataset ? numberOf(cell.dataset.value) : null;
    const words = cell.textContent.trim();
    return words === "" || words === "–" ? null : words;
  }

  function numberOf(text) {
    const sign = text.startsWith("-") ? -1 : 1;
    return text.endsWith("inf") ? sign * Number.MAX_VALUE : Number(text);
  }

  // Outputs: two outputs of one example side by side, from a single block of data.
  function sideBySide(data) {
    const [example, left, right] = [byId("example"), byId("left"), byId("right")];
    const reference = data.cells.length;
    const nameOf = (place) => (place === reference ? "the reference" : data.cells[place]);
    const of = (one, place) => (place === reference
      ? { text: one.given.reference, facts: [] }
      : one.outputs.find((output) => output.cell === place));
    const option = (value, words) => {
      const made = element("option", words);
      made.value = value;
      return made;
    };

    function choose() {
      const one = data.examples[example.value];
      const places = one.outputs.map((output) => output.cell);
      if (one.given.reference) places.push(reference);
      const before = [left, right].map((select) => Number(select.value || -1));
      for (const select of [left, right]) select.replaceChildren(...places.map((place) => option(place, nameOf(place))));
      left.value = places.includes(before[0]) ? before[0] : places[0];
      const first = of(one, Number(left.value)).text;
      const unlike = places.find((place) => of(one, place).text !== first);
      right.value = places.includes(before[1]) ? before[1] : unlike ?? places[1] ?? places[0];
      byId("given").replaceChildren(...described(one.given));
      byId("every").querySelector("summary").textContent = `Every output of this example (${one.outputs.length})`;
      everyOutput();
      show();
    }

    function described(pairs) {
      return Object.entries(pairs).map(([name, words]) => {
        const line = element("div");
        const told = element("dd", words);
        told.dir = "auto";
        line.append(element("dt", name), told);
        return line;
      });
    }

    function show() {
      const one = data.examples[example.value];
      const [a, b] = [Number(left.value), Number(right.value)];
      const found = compare(of(one, a).text, of(one, b).text);
      fill(byId("left-output"), a, of(one, a), marked(found.a, found.kept, "del"));
      fill(byId("right-output"), b, of(one, b), marked(found.b, found.same, "ins"));
      byId("tally").textContent = tally(found, of(one, a).text === of(one, b).text);
    }

    function tally(found, alike) {
      if (alike) return "The outputs are identical.";
      if (!found.whole) return "The outputs are too long for a full comparison; only their ends are compared.";
      const share = `${found.kept.size} of ${found.a.length} ${found.unit}s on the left`;
      return `In common: ${share}, ${found.same.size} of ${found.b.length} on the right.`;
    }

    function fill(article, place, output, words) {
      const text = element("p", "", "text");
      text.dir = "auto";
      text.append(words);
      if (!output.text) text.append(element("em", "(empty)"));
      const heading = element("h3");
      heading.append(element("bdi", nameOf(place)));
      article.replaceChildren(heading, element("p", output.facts.join(" · "), "meta"), text);
      if (output.details) article.append(details(output));
    }

    function details(output) {
      const list = element("dl");
      const words = output.text.split(/\s+/u).filter(Boolean);
      for (const [name, value] of Object.entries(output.details)) {
        const line = element("div");
        const told = element("dd", Array.isArray(value) ? "" : value);
        if (Array.isArray(value)) {
          if (value.length === words.length) told.append(...words.map((word, place) => over(word, value[place])));
          else told.textContent = value.join(" ");
        }
        line.append(element("dt", name), told);
        list.append(line);
      }
      return list;
    }

    function over(word, above) {
      const made = element("ruby", word);
      made.append(element("rt", above));
      return made;
    }

    function everyOutput() {
      const details = byId("every");
      details.querySelector("div").replaceChildren(...(details.open ? [tableOf(data.examples[example.value])] : []));
    }

    function tableOf(one) {
      const table = element("table", "", "left outputs");
      table.createCaption().textContent = one.name;
      const head = table.createTHead().insertRow();
      for (const words of ["cell", "output", "ending"]) {
        const cell = element("th", words);
        cell.scope = "col";
        head.append(cell);
      }
      const body = table.createTBody();
      for (const output of one.outputs) {
        const row = body.insertRow();
        const label = element("th");
        label.scope = "row";
        label.append(element("bdi", nameOf(output.cell)));
        const cut = output.text.length > SHOWN ? `${output.text.slice(0, SHOWN)} …` : output.text;
        const told = element("td", cut);
        told.dir = "auto";
        row.append(label, told, element("td", output.facts.join(", ")));
      }
      const box = element("div", "", "box");
      box.tabIndex = 0;
      box.append(table);
      return box;
    }

    function print() {
      byId("printed").replaceChildren(...data.examples.flatMap((one) => {
        const given = element("dl", "", "given");
        given.append(...described(one.given));
        return [element("h3", one.name), given, tableOf(one)];
      }));
    }

    example.replaceChildren(...data.examples.map((one, place) => option(place, one.name)));
    example.addEventListener("change", choose);
    for (const select of [left, right]) select.addEventListener("change", show);
    byId("swap").addEventListener("click", () => {
      [left.value, right.value] = [right.value, left.value];
      show();
    });
    byId("every").addEventListener("toggle", everyOutput);
    window.addEventListener("beforeprint", print);
    window.addEventListener("afterprint", () => byId("printed").replaceChildren());
    byId("outputs").hidden = false;
    choose();
  }

  // Nothing is folded in print.
  function unfoldForPrint() {
    let folded = [];
    window.addEventListener("beforeprint", () => {
      folded = [...document.querySelectorAll("details:not([open])")];
      for (const one of folded) one.open = true;
    });
    window.addEventListener("afterprint", () => folded.forEach((one) => { one.open = false; }));
  }

  document.querySelectorAll("main > section table, main details table").forEach(makeSortable);
  unfoldForPrint();
  const block = byId("outputs-data");
  if (block) sideBySide(JSON.parse(block.textContent));
})();
