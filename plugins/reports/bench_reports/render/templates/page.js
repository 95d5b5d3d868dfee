"use strict";
(() => {
  const NEXT = { none: "ascending", ascending: "descending", descending: "none" };
  const MOST = 12_000_000; // pairs of words that are compared
  const SHOWN = 300; // characters of an output among all others
  const collator = new Intl.Collator("en", { numeric: true });
  const byId = (id) => document.getElementById(id);

  function element(name, words = "", look = "") {
    const made = document.createElement(name);
    made.textContent = words;
    if (look) made.className = look;
    return made;
  }

  // Tables: a click on a heading sorts up, then down, then as it was; what is missing stays last.
  function makeSortable(table) {
    const body = table.tBodies[0];
    const heads = [...table.tHead.rows[0].cells];
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

  // Differences: the words of two texts that a longest common subsequence leaves out.
  function wordsOf(text) {
    const own = "\\p{Script=Han}\\p{Script=Hiragana}\\p{Script=Katakana}"; // one letter is a word
    const pattern = new RegExp(`(\\s*)([${own}]|[^\\s${own}]+)`, "gu");
    return [...text.matchAll(pattern)].map(([, gap, word]) => ({ gap, word }));
  }

  function lettersOf(text) {
    return Array.from(text, (word) => ({ gap: "", word }));
  }

  function compare(left, right) {
    let [a, b] = [wordsOf(left), wordsOf(right)];
    const unit = Math.max(a.length, b.length) > 1 ? "word" : "letter";
    if (unit === "letter") [a, b] = [lettersOf(left), lettersOf(right)];
    let start = 0;
    while (start < a.length && start < b.length && a[start].word === b[start].word) start += 1;
    let end = 0;
    const room = Math.min(a.length, b.length) - start;
    while (end < room && a[a.length - 1 - end].word === b[b.length - 1 - end].word) end += 1;
    const [kept, same] = [new Set(), new Set()];
    for (let i = 0; i < start; i += 1) { kept.add(i); same.add(i); }
    for (let i = 1; i <= end; i += 1) { kept.add(a.length - i); same.add(b.length - i); }
    const whole = align(a, b, start, end, kept, same);
    return { a, b, kept, same, unit, whole };
  }

  function align(a, b, start, end, kept, same) {
    const [n, m] = [a.length - start - end, b.length - start - end];
    if (n * m > MOST) return false;
    const width = m + 1;
    const longest = new Uint16Array((n + 1) * width);
    for (let i = n - 1; i >= 0; i -= 1) {
      for (let j = m - 1; j >= 0; j -= 1) {
        longest[i * width + j] = a[start + i].word === b[start + j].word
          ? longest[(i + 1) * width + j + 1] + 1
          : Math.max(longest[(i + 1) * width + j], longest[i * width + j + 1]);
      }
    }
    for (let i = 0, j = 0; i < n && j < m;) {
      if (a[start + i].word === b[start + j].word) {
        kept.add(start + i);
        same.add(start + j);
        i += 1;
        j += 1;
      } else if (longest[(i + 1) * width + j] >= longest[i * width + j + 1]) i += 1;
      else j += 1;
    }
    return true;
  }

  function marked(words, common, mark) {
    const made = document.createDocumentFragment();
    let run = null;
    words.forEach(({ gap, word }, place) => {
      if (common.has(place)) {
        run = null;
        made.append(gap + word);
      } else if (run) run.textContent += gap + word;
      else {
        run = element(mark, word);
        made.append(gap, run);
      }
    });
    return made;
  }

  // Outputs: two of one example beside each other, all of it from one block of data.
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
      if (alike) return "The two are the same.";
      if (!found.whole) return "The two are too long to be compared inside; only their ends are.";
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
      for (const words of ["by", "output", "ending"]) {
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

  // On paper nothing is folded.
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
