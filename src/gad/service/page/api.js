// Talking to the service that showed this page, and to nothing else.

export class Refused extends Error {}

export const SILENT = "The service does not answer. Is it still running?";
const KEY = "gad-api-key";

// A connection that fails, at the start or in the middle of an answer, is said; one that we end is not.
function lost(error) {
  if (error.name === "AbortError") throw error;
  throw new Refused(SILENT);
}

async function ask(path, options) {
  const headers = { ...options.headers };
  const key = sessionStorage.getItem(KEY);
  if (key) headers["X-API-Key"] = key;
  const answer = await fetch(path, { ...options, headers }).catch(lost);
  if (answer.status === 401 && await askForKey(key)) return ask(path, options);
  if (!answer.ok) {
    const told = await answer.json().catch(() => ({}));
    throw new Refused(told.error || `The service answered ${answer.status}.`);
  }
  return answer;
}

// Whether one was given; Escape gives none.
function askForKey(wrong) {
  const dialog = document.getElementById("key-dialog");
  const key = document.getElementById("key");
  document.getElementById("key-title").textContent = wrong
    ? "That is not the API key of this service" : "This service wants its API key";
  key.value = dialog.returnValue = "";
  return new Promise((done) => {
    dialog.addEventListener("close", () => {
      const given = dialog.returnValue === "given" && key.value !== "";
      if (given) sessionStorage.setItem(KEY, key.value);
      done(given);
    }, { once: true });
    dialog.showModal();
  });
}

const json = async (path, options) => (await ask(path, options)).json().catch(lost);
const post = (path, body, signal) => json(path, {
  method: "POST", body: JSON.stringify(body), signal,
  headers: { "Content-Type": "application/json" },
});

export const models = async () => (await json("/v1/models", {})).models;
export const predict = (body, signal) => post("/v1/predict", body, signal);
export const draw = async (body, signal) => (await post("/v1/draw", body, signal)).drawings;

// A table up; the text of the CSV that comes back.
export async function predictTable(blob, kind, model, signal) {
  const query = new URLSearchParams({ model, uncertainty: "true", format: "csv" });
  const answer = await ask(`/v1/predict/file?${query}`, {
    method: "POST", body: blob, signal, headers: { "Content-Type": kind },
  });
  return answer.text().catch(lost);
}
