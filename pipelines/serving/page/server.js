"use strict";

// Where the server is, and TensorFlow Serving's REST API. Nothing here touches the page.

const TIMEOUT = 40_000; // milliseconds; the server itself gives up after 30 s
const RETRY_PAUSE = 3_000;
const STORE = "dtmt_tf";

const settings = readSettings(); // server, models; model, the chosen one; and asked, if any

/**
 * Settings from the address, else remembered, else guessed. A server that the address alone names
 * and that is not at hand is `asked`, not used: whoever made the link would read what is typed.
 */
function readSettings() {
  const address = new URLSearchParams(location.search);
  let stored = {};
  try {
    stored = JSON.parse(localStorage.getItem(STORE)) ?? {};
  } catch {} // no storage, or not ours
  const here = `http://${location.hostname || "localhost"}:8501`;
  const models = address.get("models") || stored.models || "dtmt";
  const own = cleanSettings(stored.server || here, models);
  const named = cleanSettings(address.get("server") || own.server, models);
  const known = isAtHand(named.server) || originOf(named.server) === originOf(own.server);
  return known ? named : { ...own, asked: named.server };
}

/** Whether an address is on this machine, or where the page itself is from. */
function isAtHand(address) {
  const { hostname } = new URL(originOf(address) ?? "http://nowhere.invalid");
  const isLoopback = /^(127(\.\d+){3}|\[::1\]|(.+\.)?localhost)$/.test(hostname);
  return isLoopback || hostname === location.hostname;
}

/** Scheme, host and port of an address; null if it has none. */
function originOf(address) {
  try {
    return new URL(address).origin;
  } catch {
    return null;
  }
}

function cleanSettings(server, models) {
  const address = String(server).trim().replace(/\/+$/, "");
  return {
    server: /^https?:\/\//i.test(address) ? address : `http://${address}`,
    models: String(models)
      .split(",")
      .map((name) => name.trim())
      .filter(Boolean),
  };
}

function saveSettings(server, models) {
  Object.assign(settings, cleanSettings(server, models));
  const kept = { models: settings.models.join(","), server: settings.server };
  try {
    localStorage.setItem(STORE, JSON.stringify(kept));
  } catch {} // then the address alone keeps them
  history.replaceState(null, "", `?${new URLSearchParams(kept)}`);
}

/** What went wrong, in words; what to try next; whether the page tries again by itself. */
class Trouble extends Error {
  isRefusal = false; // whether the server does not take the request, though it may take parts of it
  isLimit = false; // whether it names a limit of the export

  constructor(what, next, retry = false) {
    super(what);
    this.next = next;
    this.retry = retry;
  }
}

/** GETs, or POSTs `body`, below the chosen model's address. */
async function ask(path, body, signal) {
  const url = `${settings.server}/v1/models/${encodeURIComponent(settings.model)}${path}`;
  const timeout = AbortSignal.timeout(TIMEOUT);
  let response, text;
  try {
    // a string without a content type is a "simple" request: the browser asks for no leave first
    response = await fetch(url, {
      method: body ? "POST" : "GET",
      body: body && JSON.stringify(body),
      signal: AbortSignal.any([signal, timeout]),
    });
    text = await response.text();
  } catch (error) {
    signal.throwIfAborted();
    throw timeout.aborted ? late() : await unreachable();
  }
  signal.throwIfAborted();
  if (!response.ok) throw refusal(response.status, text);
  try {
    return JSON.parse(text);
  } catch {
    throw badAnswer();
  }
}

/** Rows of a signature's answer, one for each text. */
async function predict(signature, texts, signal) {
  const body = { signature_name: signature, instances: texts };
  const rows = (await ask(":predict", body, signal))?.predictions;
  if (!Array.isArray(rows) || rows.length !== texts.length) throw badAnswer();
  return rows;
}

/** What the chosen model can do, and what it says of itself. */
async function loadCard(signal) {
  const signatures = (await ask("/metadata", null, signal))?.metadata?.signature_def?.signature_def;
  if (typeof signatures !== "object" || !signatures) throw badAnswer();
  const loaded = { signatures, info: {} };
  if (signatures.info)
    try {
      const [info] = await predict("info", [""], signal);
      loaded.info = Object(JSON.parse(info));
    } catch {
      signal.throwIfAborted(); // else: without a card it translates as well
    }
  return loaded;
}

function late() {
  return new Trouble(
    `${settings.server} did not answer in time.`,
    "Try fewer or shorter lines. If that does not help, look at the server's load and log.",
  );
}

async function unreachable() {
  try {
    await fetch(settings.server, { mode: "no-cors", signal: AbortSignal.timeout(RETRY_PAUSE) });
  } catch {
    return new Trouble(
      `${settings.server} can not be reached.`,
      "Start the server, or mend its address under Settings: REST is usually port 8501 (8500 is " +
        "gRPC). This page tries again every few seconds.",
      true,
    );
  }
  return new Trouble(
    `${settings.server} answers, but does not let web pages read its answers.`,
    "Start TensorFlow Serving with --rest_api_enable_cors_support, or mend the address under " +
      "Settings.",
    true,
  );
}

function refusal(status, text) {
  if (status === 404)
    return new Trouble(
      `The server has no model “${settings.model}”, or has not loaded it yet.`,
      "Compare the name under Settings with the server's --model_name or model config; its log " +
        "says what it has loaded. This page tries again every few seconds.",
      true,
    );
  if (status === 504) return late();
  let said = text;
  try {
    said = JSON.parse(text).error ?? text;
  } catch {} // the server does not escape its errors well
  const isLimit = String(said).includes("(export.");
  const advice = isLimit
    ? "Shorten the line, or export with another limit."
    : status < 500
      ? "Look whether this model is one of dtmt_tf's exports."
      : "Look at the server's log, then try again.";
  const what = `The server refused (HTTP ${status}): ${String(said).slice(0, 300)}`;
  return Object.assign(new Trouble(what, advice), { isRefusal: status === 400, isLimit });
}

function badAnswer() {
  return new Trouble(
    `${settings.server} answered with something that is no translation.`,
    "Look under Settings whether this is TensorFlow Serving's REST address, and whether the " +
      "model is one of dtmt_tf's exports.",
  );
}
