"use strict";

// The alignment: words that light up, and a heat map. `side` is "source" or "target"; a word is the
// list of its sub-words' numbers.

const BLANK = "\u2581"; // SentencePiece's sign for a blank
const UNSPACED = /[\p{sc=Han}\p{sc=Hira}\p{sc=Kana}\p{sc=Thai}\p{sc=Laoo}\p{sc=Khmr}\p{sc=Mymr}]/u;
const PUNCTUATION = /^[\p{P}\p{S}]+$/u;

const isEnd = (subwords, k) => k === subwords.length - 1 && subwords[k] === "<eos>";

/** The text of a sub-word, its blanks as blanks, without those at its ends. */
const textOf = (subwords, k) =>
  isEnd(subwords, k) ? "end" : subwords[k].replaceAll(BLANK, " ").trim();

/** Groups sub-words into words: at blanks, at punctuation, and in scripts without blanks. */
function wordsOf(subwords) {
  const alone = (k) =>
    PUNCTUATION.test(subwords[k].replaceAll(BLANK, "")) || UNSPACED.test(subwords[k]);
  const words = [];
  subwords.forEach((subword, k) => {
    const begins = k === 0 || subword.startsWith(BLANK) || alone(k) || alone(k - 1);
    if (begins || isEnd(subwords, k)) words.push([k]);
    else words.at(-1).push(k);
  });
  return words;
}

/** What a word says, without blanks at its ends. */
const nameOf = (subwords, word) => word.map((k) => textOf(subwords, k)).join("");

function showAlignment(alignment, translation) {
  $("alignment").hidden = !alignment;
  $("alignment").classList.remove("stale");
  if (!alignment) return;
  $("first-part").hidden = alignment.translation === translation;
  for (const side of ["source", "target"]) showWords(side, alignment);
  showHeatMap(alignment);
  highlight(alignment);
}

function showWords(side, alignment) {
  const subwords = alignment[side];
  const row = $(`${side}-words`);
  row.replaceChildren();
  wordsOf(subwords).forEach((word, number) => {
    const pieces = word.map((k) => {
      const piece = element("span", isEnd(subwords, k) ? "end" : "", textOf(subwords, k));
      piece.dataset.index = k;
      return piece;
    });
    const option = element("span", "word", ...pieces);
    option.role = "option";
    option.tabIndex = number ? -1 : 0;
    for (const event of ["mouseenter", "focus"])
      option.addEventListener(event, () => highlight(alignment, side, word));
    option.addEventListener("blur", () => highlight(alignment));
    const blank = subwords[word[0]].startsWith(BLANK) || isEnd(subwords, word[0]);
    row.append(blank ? " " : "", option); // the blank does not light up
  });
  row.onmouseleave = () => highlight(alignment);
  row.onkeydown = (event) => moveFocus(event, row);
}

function showHeatMap(alignment) {
  const { source, target, attention } = alignment;
  const strongest = Math.max(...attention.map((row) => Math.max(...row)), Number.MIN_VALUE);
  const heading = (scope, side, k) => {
    const joined = wordsOf(alignment[side]).every(([first]) => first !== k);
    const label = element("span", joined ? "joined" : "", textOf(alignment[side], k) || "␣");
    const cell = element("th", isEnd(alignment[side], k) ? "end" : "", label);
    label.dir = "auto";
    label.lang = $(`${side}-words`).lang;
    cell.scope = scope;
    return cell;
  };
  const weightCell = (weight) => {
    const percent = Math.round(100 * weight);
    const cell = element("td", "", percent < 5 ? "" : percent);
    cell.dataset.weight = weight;
    cell.style.setProperty("--weight", weight / strongest);
    return cell;
  };
  const columns = source.map((_, s) => heading("col", "source", s));
  const rows = attention.map((weights, t) => {
    return element("tr", "", heading("row", "target", t), ...weights.map(weightCell));
  });
  const head = element("tr", "", element("td"), ...columns);
  const table = $("heat-map");
  table.replaceChildren(element("thead", "", head), element("tbody", "", ...rows));
  table.onmouseover = (event) => {
    const [t, s] = placeOf(event.target);
    if (t >= 0 && s >= 0) highlight(alignment, "target", [t], [s]);
    else if (t >= 0) highlight(alignment, "target", [t]);
    else if (s >= 0) highlight(alignment, "source", [s]);
  };
  table.onmouseleave = () => highlight(alignment);
  $("strongest").textContent = `${Math.round(100 * strongest)} %`;
}

/** Row and column of a cell in the matrix; -1 for headings. */
const placeOf = (cell) => [cell.parentNode.rowIndex - 1, cell.cellIndex - 1];

/** Arrow keys, Home and End go from word to word; a row is one stop of the Tab key. */
function moveFocus(event, row) {
  const options = [...row.querySelectorAll(".word")];
  const here = options.indexOf(document.activeElement);
  const forward = getComputedStyle(row).direction === "rtl" ? "ArrowLeft" : "ArrowRight";
  const backward = forward === "ArrowRight" ? "ArrowLeft" : "ArrowRight";
  const steps = { [forward]: here + 1, [backward]: here - 1, Home: 0, End: options.length - 1 };
  const there = steps[event.key];
  if (here < 0 || !options[there]) return;
  event.preventDefault();
  options[here].tabIndex = -1;
  options[there].tabIndex = 0;
  options[there].focus();
}

/**
 * Lights up sub-words and those on the other side that they were translated from or to.
 *
 * A source word has the attention that its sub-words have together, a target word the mean of what
 * its sub-words give.
 *
 * @param side Where the sub-words stand; without it nothing lights up.
 * @param only The sub-words to name on the other side; without it the words with most attention.
 */
function highlight(alignment, side, subwords = [], only) {
  const { source, target, attention } = alignment;
  const other = side === "source" ? "target" : "source";
  const weights =
    side === "source"
      ? target.map((_, t) => sum(subwords.map((s) => attention[t][s])))
      : source.map((_, s) => sum(subwords.map((t) => attention[t][s])) / (subwords.length || 1));
  const strongest = Math.max(...weights) || 1;
  const words = (only ? only.map((k) => [k]) : wordsOf(alignment[other])).map((word) => {
    const total = sum(word.map((k) => weights[k]));
    return { word, weight: other === "source" ? total : total / word.length };
  });
  const most = Math.max(...words.map(({ weight }) => weight));
  const named = words
    .filter(({ weight }) => side && weight >= most / 2)
    .sort((a, b) => b.weight - a.weight);
  const linked = named.flatMap(({ word }) => word);
  const lit = { [other]: linked, [side]: subwords };

  for (const where of ["source", "target"])
    for (const piece of $(`${where}-words`).querySelectorAll("[data-index]")) {
      const k = Number(piece.dataset.index);
      const weight = side && where === other ? weights[k] : 0;
      piece.classList.toggle("active", where === side && subwords.includes(k));
      piece.classList.toggle("linked", where === other && linked.includes(k));
      piece.dataset.weight = weight;
      piece.style.setProperty("--weight", weight / strongest);
    }
  const isLit = (where, k) => Boolean(side && (k < 0 || lit[where].includes(k)));
  for (const cell of $("heat-map").querySelectorAll("th, tbody td")) {
    const [t, s] = placeOf(cell);
    cell.classList.toggle("lit", isLit("target", t) && isLit("source", s));
  }
  $("readout").replaceChildren();
  if (side) {
    const own = element("bdi", "", nameOf(alignment[side], subwords));
    $("readout").append(own, side === "source" ? " → " : " ← ");
    named.slice(0, 4).forEach(({ word, weight }, number) => {
      const name = element("bdi", "", nameOf(alignment[other], word));
      $("readout").append(number ? ", " : "", name, ` ${Math.round(100 * weight)} %`);
    });
  }
}

const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);
