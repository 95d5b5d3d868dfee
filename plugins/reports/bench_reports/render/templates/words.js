"use strict";
// Differences between two texts, and the elements that show them; used by page.js and `bench view`.

const MAX_PAIRS = 12_000_000; // of words to compare

function element(name, words = "", look = "") {
  const made = document.createElement(name);
  made.textContent = words;
  if (look) made.className = look;
  return made;
}

// The words of two texts that a longest common subsequence leaves out.
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
  if (n * m > MAX_PAIRS) return false;
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
