// Talking to the service that showed this page, and to nothing else.

export class Refused extends Error {}

const KEY = "gad-api-key";

async function ask(path, options, again = true) {
  const headers = { ...options.headers };
  const key = sessionStorage.getItem(KEY);
  if (key) headers["X-API-Key"] = key;
  let answer;
  try {
    answer = await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused("The service does not answer. Is it still running?");
  }
  if (answer.status === 401 && again) {
    await askForKey();
    return ask(path, options, false);
  }
  if (!answer.ok) {
    const told = await answer.json().catch(() => ({}));
    throw new Refused(told.error || `The service answered ${answer.status}.`);
  }
  return answer;
}

function askForKey() {
  const dialog = document.getElementById("key-dialog");
  return new Promise((done) => {
    dialog.addEventListener("close", () => {
      sessionStorage.setItem(KEY, document.getElementById("key").value);
      done();
    }, { once: true });
    dialog.showModal();
  });
}

const post = async (path, body, signal) => (await ask(path, {
  method: "POST", body: JSON.stringify(body), signal,
  headers: { "Content-Type": "application/json" },
})).json();

export const models = async () => (await (await ask("/v1/models", {})).json()).models;
export const predict = (body, signal) => post("/v1/predict", body, signal);
export const draw = async (body, signal) => (await post("/v1/draw", body, signal)).drawings;

// A table up; the text of the CSV that comes back.
export async function predictTable(blob, kind, model, signal) {
  const query = new URLSearchParams({ model, uncertainty: "true", format: "csv" });
  const answer = await ask(`/v1/predict/file?${query}`, {
    method: "POST", body: blob, signal, headers: { "Content-Type": kind },
  });
  return answer.text();
}
