"use strict";

// The page: what the user does, and what is shown. What users and servers send is inserted as text,
// never as HTML. Plain scripts, not modules, so that the page also works as a file.

const TYPING_PAUSE = 400; // milliseconds
const LINES_A_REQUEST = 16;
const LARGEST_FILE = 2 ** 20; // bytes
const COPIED = 2000; // milliseconds that the button says so

const $ = (id) => document.getElementById(id);

let card = null; // of the chosen model: signatures, info; null until loaded
let described = ""; // the model that `known` is of
let shown = 0; // the sentence whose details are shown
let detailed = ""; // the sentence whose details were asked for last
const known = new Map(); // of the chosen model: sentence -> translation and answers by signature
const runs = {}; // kind of work -> AbortController of its newest run
let timer = 0; // of the next translation

// ---- Settings.

function useSettings(event) {
  event.preventDefault();
  saveSettings($("server").value, $("models").value);
  showSettings(false);
  $("settings-button").focus();
  listModels();
}

function showSettings(open) {
  $("settings").hidden = !open;
  $("settings-button").setAttribute("aria-expanded", open);
  if (open) {
    $("server").value = settings.server;
    $("models").value = settings.models.join(", ");
    $("server").focus();
  }
}

/** Asks whether a server that the address names may have the text; until then nothing is sent. */
function askForLeave() {
  $("leave-server").textContent = originOf(settings.asked) ?? settings.asked;
  $("leave-no").textContent = `No, use ${settings.server}`;
  $("leave").showModal();
}

function endAsking(leave) {
  if (leave) settings.server = settings.asked;
  else history.replaceState(null, "", `?${new URLSearchParams({ models: settings.models })}`);
  delete settings.asked;
  $("leave").close();
  $("source").focus();
  listModels();
}

function listModels() {
  const before = $("model").value;
  $("model").replaceChildren(...settings.models.map((name) => new Option(name, name)));
  $("model").value = settings.models.includes(before) ? before : settings.models[0];
  changeModel();
}

function changeModel() {
  settings.model = $("model").value;
  card = null;
  known.clear();
  showCard({});
  showSentences([]);
  translate();
}

// ---- Translating.

/** Starts a run of this kind and ends the one before, whose answers then count no more. */
function start(kind) {
  runs[kind]?.abort();
  runs[kind] = new AbortController();
  return runs[kind].signal;
}

const sentencesOf = (text) => text.split("\n").filter((line) => line.trim());

async function translate() {
  clearTimeout(timer);
  if (settings.asked) return; // no server is chosen yet
  const signal = start("translation");
  runs.details?.abort();
  const sentences = sentencesOf($("source").value);
  try {
    if (!card) {
      if ($("trouble").hidden) say(`Asking for “${settings.model}” …`);
      card = await loadCard(signal);
      const model = JSON.stringify(card.info);
      if (model !== described) known.clear(); // what another model said
      described = model;
      showCard(card.info);
    }
    const seconds = await translateAll(sentences, signal);
    $("trouble").hidden = true;
    say(seconds === null ? "" : `${seconds.toFixed(2)} s`);
  } catch (error) {
    if (!signal.aborted) complain(error);
  }
}

/** Translates what is not known yet, a few lines a request; returns the seconds that took. */
async function translateAll(sentences, signal) {
  const missing = [...new Set(sentences)].filter((sentence) => !known.has(sentence));
  if (missing.length && !card.signatures.serving_default)
    throw new Trouble(
      `“${settings.model}” has no signature “serving_default”, so it can not translate.`,
      "Choose another model, or export this one anew with pipelines/export.py.",
    );
  const begin = performance.now();
  for (let done = 0; done < missing.length; done += LINES_A_REQUEST) {
    say(`Translating …${done ? ` ${done} of ${missing.length} lines` : ""}`);
    await translateSome(missing.slice(done, done + LINES_A_REQUEST), signal);
    showSentences(sentences);
  }
  if (!missing.length) showSentences(sentences);
  return missing.length ? (performance.now() - begin) / 1000 : null;
}

/** Translates lines in one request; those that are refused together, in halves. */
async function translateSome(lines, signal) {
  let rows;
  try {
    rows = await predict("serving_default", lines, signal);
  } catch (error) {
    const half = Math.ceil(lines.length / 2);
    if (!error.isRefusal || (lines.length === 1 && !error.isLimit)) throw error;
    if (lines.length === 1) return known.set(lines[0], { translation: "", refusal: error });
    await translateSome(lines.slice(0, half), signal);
    return translateSome(lines.slice(half), signal);
  }
  const translations = rows.map((row) => row?.translation ?? row); // a lone output has no name
  if (!translations.every((text) => typeof text === "string")) throw badAnswer();
  lines.forEach((line, k) => known.set(line, { translation: translations[k] }));
}

/** Asks for n-best list and alignment of the sentence shown, where the model has them. */
async function loadDetails(sentence) {
  if (sentence === detailed && !runs.details.signal.aborted) return; // on its way, or there
  detailed = sentence;
  const signal = start("details");
  const entry = known.get(sentence);
  const { signatures } = card;
  const load = async (signature, section, read, show) => {
    if (signatures[signature] && !entry[signature]) {
      showWork(section); // in its place, with what it showed before, so that nothing jumps
      entry[signature] = read((await predict(signature, [sentence], signal))[0]);
    }
    $(section).ariaBusy = "false";
    show(entry[signature], entry.translation);
  };
  try {
    await Promise.all([
      load("translate_nbest", "hypotheses", readHypotheses, showHypotheses),
      load("align", "alignment", readAlignment, showAlignment),
    ]);
  } catch (error) {
    if (!signal.aborted) complain(error);
  }
}

function readHypotheses(row) {
  const { translations, scores, lengths } = row ?? {};
  if (![translations, scores, lengths].every(Array.isArray)) throw badAnswer();
  return translations
    .map((text, k) => ({ text, score: scores[k], length: lengths[k] }))
    .filter((hypothesis) => hypothesis.length > 0);
}

function readAlignment(row) {
  const { source_subwords, target_subwords, attention, source_length, target_length } = row ?? {};
  if (![source_subwords, target_subwords, attention].every(Array.isArray)) throw badAnswer();
  return {
    translation: row.translation,
    source: source_subwords.slice(0, source_length),
    target: target_subwords.slice(0, target_length),
    attention: attention.slice(0, target_length).map((weights) => weights.slice(0, source_length)),
  };
}

// ---- Showing.

function element(name, className, ...children) {
  const result = document.createElement(name);
  result.className = className ?? "";
  result.append(...children);
  return result;
}

function showWork(section) {
  $(section).hidden = false;
  $(section).classList.add("stale");
  $(section).ariaBusy = "true";
}

function say(text) {
  $("status").textContent = text;
}

function complain(error) {
  const trouble =
    error instanceof Trouble ? error : new Trouble(`This page failed: ${error}`, "Reload it.");
  say("");
  for (const [id, text] of [
    ["trouble-what", trouble.message],
    ["trouble-next", trouble.next],
  ])
    if ($(id).textContent !== text) $(id).textContent = text; // else it is read out at each try
  $("trouble").hidden = false;
  card = null; // the server may come back with another model
  for (const id of ["hypotheses", "alignment"]) $(id).ariaBusy = "false";
  if (trouble.retry) timer = setTimeout(translate, RETRY_PAUSE);
}

function languageName(code) {
  try {
    return new Intl.DisplayNames("en", { type: "language" }).of(code);
  } catch {
    return code;
  }
}

function showCard(info) {
  const { source_language: source, target_language: target } = info;
  $("source-language").textContent = source ? languageName(source) : "Text";
  $("target-language").textContent = target ? languageName(target) : "Translation";
  for (const id of ["source", "source-words"]) $(id).lang = source ?? "";
  for (const id of ["translation", "target-words", "candidates"]) $(id).lang = target ?? "";
  const facts = [];
  const breakable = (text) => text.split(/(?<=\|)/).flatMap((part) => [part, element("wbr")]);
  const add = (name, ...values) =>
    facts.push(element("div", "", element("dt", "", name), element("dd", "", ...values)));
  if (info.task) add("Task", info.task);
  if (source && target) add("Languages", `${languageName(source)} → ${languageName(target)}`);
  if (info.model) add("Architecture", info.model);
  if (info.parameters) add("Parameters", Number(info.parameters).toLocaleString("en"));
  for (const [split, score] of Object.entries(info.scores ?? {}))
    if (Number.isFinite(score?.bleu))
      add(
        `BLEU, ${split}`,
        score.bleu.toFixed(2),
        score.of_this_model === false ? " (of other weights or another search)" : "",
        element("small", "", ...breakable(String(score.signature ?? ""))),
      );
  if (info.limits?.rounded_weights) add("Weights", info.limits.rounded_weights);
  add("Server", settings.server);
  $("about").querySelector("dl").replaceChildren(...facts);
}

/** Shows the sentences' translations so far, and the details of one of them. */
function showSentences(sentences) {
  shown = Math.max(0, Math.min(shown, sentences.length - 1));
  const lines = $("translation").children;
  while (lines.length > sentences.length) $("translation").lastChild.remove();
  sentences.forEach((sentence, k) => {
    if (!lines[k]) {
      $("translation").append(element("p"));
      lines[k].dir = "auto";
      lines[k].addEventListener("click", () => goTo(k));
    }
    const { translation = "…", refusal } = known.get(sentence) ?? {};
    const text = refusal ? `${refusal.message} ${refusal.next}` : translation;
    lines[k].classList.toggle("refused", Boolean(refusal));
    lines[k].lang = refusal ? "en" : $("translation").lang;
    if (lines[k].textContent !== text) lines[k].textContent = text; // the rest is not read out anew
    markUnsure(lines[k], known.get(sentence)?.translate_nbest);
    lines[k].classList.toggle("shown", k === shown && sentences.length > 1);
  });
  $("translation").classList.remove("stale");
  $("copy").disabled = !sentences.length;
  showHint();
  $("sentences").hidden = sentences.length < 2;
  $("position").textContent = `Sentence ${shown + 1} of ${sentences.length}`;
  $("previous").disabled = shown === 0;
  $("next").disabled = shown >= sentences.length - 1;
  const entry = known.get(sentences[shown]);
  if (entry && !entry.refusal) loadDetails(sentences[shown]);
  else if (entry || !sentences.length) for (const id of ["hypotheses", "alignment"]) $(id).hidden = true;
}

/**
 * Marks the words of a translation that hypotheses with most of the list's probability do not have.
 * A translation that is not the first of its list stays as it is.
 */
function markUnsure(line, hypotheses) {
  if (hypotheses?.[0]?.text !== line.textContent || line.querySelector("mark")) return;
  const odds = hypotheses.map(({ score }) => Math.exp(score - hypotheses[0].score));
  const segmenter = new Intl.Segmenter($("translation").lang || undefined, { granularity: "word" });
  const lists = hypotheses.map(({ text }) => [...segmenter.segment(text)]);
  const holds = lists.map((list) => new Set(list.map(({ segment }) => segment)));
  const share = (word) => sum(odds.filter((_, k) => holds[k].has(word))) / sum(odds);
  const parts = lists[0].map(({ segment, isWordLike }) => {
    if (!isWordLike || share(segment) >= 0.5) return segment;
    const mark = element("mark", "", segment);
    mark.title = `${Math.round(100 * share(segment))} % of the best translations have this word`;
    return mark;
  });
  if (parts.some((part) => part instanceof Element)) line.replaceChildren(...parts);
}

function showHint() {
  $("unsure-hint").hidden = !$("translation").querySelector("mark");
}

function goTo(k) {
  shown = k;
  translate(); // what is known is not asked for again
}

function showHypotheses(hypotheses) {
  $("hypotheses").hidden = !hypotheses?.length;
  $("hypotheses").classList.remove("stale");
  const items = (hypotheses ?? []).map(({ text, score }) => {
    const words = element("span", "", text);
    words.dir = "auto";
    const number = element("data", "", Number(score).toFixed(3).replace("-", "−"));
    number.value = score;
    return element("li", "", words, number);
  });
  $("candidates").replaceChildren(...items);
  const line = $("translation").children[shown];
  if (line) markUnsure(line, hypotheses);
  showHint();
}

// ---- What the user does.

$("source").addEventListener("input", () => {
  for (const run of Object.values(runs)) run.abort();
  for (const id of ["translation", "hypotheses", "alignment"]) $(id).classList.add("stale");
  const before = $("source").value.slice(0, $("source").selectionStart);
  shown = sentencesOf(before).length - 1; // the line that is written shows its details
  clearTimeout(timer);
  timer = setTimeout(translate, TYPING_PAUSE);
});

/** Takes a text file's lines in place of what is there. */
async function read(file) {
  if (!file) return;
  if (file.size > LARGEST_FILE) {
    say(`${file.name} is larger than 1 MiB; dtmt client translates it.`);
    return;
  }
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    $("source").value = text;
    $("source").setSelectionRange(0, 0);
    $("source").dispatchEvent(new Event("input"));
  } catch {
    say(`${file.name} is no text in UTF-8.`);
  }
}

/** Copies the translations, an empty line for each that is empty. */
async function copy() {
  const lines = $("source").value.split("\n");
  try {
    const text = lines.map((line) => known.get(line)?.translation ?? "").join("\n");
    await navigator.clipboard.writeText(text);
    $("copy").textContent = "Copied";
  } catch {
    getSelection().selectAllChildren($("translation")); // the browser gives no leave
    $("copy").textContent = "Press Ctrl+C";
  }
  setTimeout(() => ($("copy").textContent = "Copy"), COPIED);
}

function translateAnew() {
  known.clear();
  translate();
}

$("source").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) translateAnew();
});
$("source").addEventListener("dragover", (event) => event.preventDefault());
$("source").addEventListener("drop", (event) => {
  if (!event.dataTransfer.files.length) return; // text is dropped as ever
  event.preventDefault();
  read(event.dataTransfer.files[0]);
});
$("open").addEventListener("click", () => $("file").click());
$("file").addEventListener("change", () => {
  read($("file").files[0]);
  $("file").value = ""; // the same file may be chosen again
});
$("copy").addEventListener("click", copy);
$("translate").addEventListener("click", translateAnew);
$("again").addEventListener("click", translateAnew);
$("model").addEventListener("change", changeModel);
$("previous").addEventListener("click", () => goTo(shown - 1));
$("next").addEventListener("click", () => goTo(shown + 1));
$("settings-button").addEventListener("click", () => showSettings($("settings").hidden));
$("settings").addEventListener("submit", useSettings);
$("leave-yes").addEventListener("click", () => endAsking(true));
$("leave-no").addEventListener("click", () => endAsking(false));
$("leave").addEventListener("cancel", (event) => {
  event.preventDefault(); // the Escape key is a no
  endAsking(false);
});

if (settings.asked) askForLeave();
else listModels();
