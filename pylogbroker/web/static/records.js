// The list of records and the opened one: streams, keys, copies. Rows come from the server as HTML, ready to be shown.

const ROWS_MAX = 2000;
const CONDITIONS_MAX = 10;
const RETRY_MS = 2000;

const one = (query, from = document) => from.querySelector(query);
const all = (query, from = document) => [...from.querySelectorAll(query)];
const run = one("#run");
const rows = one("#records tbody");
const form = one("form.filter");

let source = null;
let waiting = "";  // new rows that the reader has not asked for
let waitingCount = 0;
let leftOut = 0;
let retry = null;

document.documentElement.classList.add("live");

function toast(text) {
  one(".toast")?.remove();
  document.body.append(Object.assign(document.createElement("div"), { className: "toast", role: "status", textContent: text }));
  setTimeout(() => one(".toast")?.remove(), 4000);
}

// A search that goes on.

function stop() {
  source?.close();
  source = null;
  clearTimeout(retry);
}

function showRows(html, isNewer) {
  one("#none")?.remove();
  one("#records").classList.remove("none");
  rows.insertAdjacentHTML(isNewer ? "afterbegin" : "beforeend", html);
}

function search(address) {
  stop();
  source = new EventSource(address);
  const state = (event) => {
    const data = JSON.parse(event.data);
    run.innerHTML = data.html;
    run.dataset.stream = data.more;
  };
  source.addEventListener("records", (event) => showRows(JSON.parse(event.data).html, false));
  source.addEventListener("progress", state);
  for (const end of ["bound", "rows", "end"]) {
    source.addEventListener(end, (event) => {
      stop();
      state(event);
      if (end === "end") delete run.dataset.stream;
      if (end === "rows") watchEnd();
    });
  }
  source.addEventListener("failed", (event) => { stop(); run.innerHTML = `<p class="note bad" role="alert">${JSON.parse(event.data).html}</p>`; });
  source.addEventListener("error", () => {
    if (!source) return;
    stop();  // a stream that begins again would repeat its rows
    const note = Object.assign(document.createElement("p"), { className: "note warn", textContent: "The search was interrupted. " });
    note.append(goOn());
    run.replaceChildren(note);
  });
}

function goOn() {
  const button = Object.assign(document.createElement("button"), { type: "button", textContent: "Go on" });
  button.dataset.goOn = "";
  return button;
}

function stopped() {
  stop();
  const state = one("[role=status]", run);
  state?.prepend("Stopped: ");
  one("[data-stop]", run)?.replaceWith(goOn());
}

// More rows come as the end of the list is scrolled to.

const ends = new IntersectionObserver((entries) => {
  if (!entries.some((entry) => entry.isIntersecting) || source || !run?.dataset.stream) return;
  ends.disconnect();
  if (rows.children.length < ROWS_MAX) search(run.dataset.stream);
});

function watchEnd() {
  ends.disconnect();
  const last = rows?.lastElementChild;
  if (last && scrollY > 0) ends.observe(last);
}
addEventListener("scroll", () => { if (!source && run?.dataset.stream && run.dataset.live === undefined) watchEnd(); }, { passive: true });

// Live: new rows on top, if the list is scrolled to it and nobody selects text.

const isReading = () => scrollY > 40 || !getSelection().isCollapsed || one(".pressed");

function say(text) {
  const status = one("[role=status]", run) ?? run.appendChild(Object.assign(document.createElement("div"), { role: "status" }));
  const left = leftOut ? ` ${leftOut.toLocaleString("en")} were left out: at most 20 a second are shown.` : "";
  status.textContent = text + left;
}

function showWaiting() {
  if (waiting) showRows(waiting, true);
  waiting = "";
  waitingCount = 0;
  one("[data-new]", run)?.remove();
  while (rows.children.length > 200) rows.lastElementChild.remove();
}

function follow() {
  stop();
  const address = new URL(run.dataset.stream, location.href);
  source = new EventSource(address);
  source.addEventListener("open", () => say("Live."));
  source.addEventListener("live", (event) => {
    const data = JSON.parse(event.data);
    address.searchParams.set("after", data.after);
    run.dataset.stream = address.pathname + address.search;
    waiting = data.html + waiting;
    waitingCount += data.count;
    leftOut += data.left_out;
    say(`Live, ${data.time}.`);
    if (!isReading()) return showWaiting();
    const button = one("[data-new]", run) ?? run.appendChild(Object.assign(document.createElement("button"), { type: "button" }));
    button.dataset.new = "";
    button.textContent = `${waitingCount} new`;
  });
  source.addEventListener("failed", (event) => { stop(); run.innerHTML = `<p class="note bad" role="alert">${JSON.parse(event.data).html}</p>`; });
  source.addEventListener("error", () => {
    stop();
    say("Stopped, trying again.");
    retry = setTimeout(follow, RETRY_MS);
  });
}

if (run?.dataset.live !== undefined) {
  run.replaceChildren();
  say("Live.");
  follow();
  document.addEventListener("visibilitychange", () => (document.hidden ? stop() : follow()));
  rows.addEventListener("pointerdown", () => rows.classList.add("pressed"));
  addEventListener("pointerup", () => rows.classList.remove("pressed"));
} else if (run?.dataset.goOn !== undefined) {
  search(run.dataset.stream);
}

// The opened record.

const chosen = () => one("#records [aria-selected=true]");

async function openAt(address, row) {
  const url = new URL(address, location.href);
  const part = new URL(url);
  part.pathname += "/opened";
  const answer = await fetch(part);
  if (!answer.ok) return location.assign(url);
  one("#record")?.remove();
  one(".split").insertAdjacentHTML("beforeend", await answer.text());
  history.replaceState(null, "", url);
  chosen()?.removeAttribute("aria-selected");
  row?.setAttribute("aria-selected", "true");
  row?.scrollIntoView({ block: "nearest" });
}

function choose(row) {
  const link = row && one("a", row);
  if (link) openAt(link.href, row);
}

function close() {
  if (!one("#record")) return;
  one("#record").remove();
  chosen()?.removeAttribute("aria-selected");
  const url = new URL(location.href);
  url.searchParams.delete("at");
  url.searchParams.delete("show");
  history.replaceState(null, "", url);
}

const step = (by) => choose(by > 0 ? chosen()?.nextElementSibling ?? one("#records tbody tr") : chosen()?.previousElementSibling);

function searchFor(button) {
  const where = one("#where");
  const value = `${button.dataset.path} == ${button.dataset.value}`;
  where.value = where.value.trim() ? `${where.value.trim()} and ${value}` : value;
  where.focus();
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    toast("Copied.");
  } catch {
    toast("The browser does not allow to copy.");
  }
}

document.addEventListener("click", (event) => {
  const target = event.target;
  for (const menu of all(".menu[open]")) if (!menu.contains(target)) menu.open = false;
  if (event.ctrlKey || event.metaKey || event.shiftKey) return;
  const part = target.closest("[data-copy], [data-copy-link], [data-close], [data-show], [data-step], [data-stop], [data-go-on]:not(#run), [data-new], [data-path], #more");
  if (part) {
    const { dataset } = part;
    if (dataset.copy !== undefined) return copy(dataset.copy);
    event.preventDefault();
    if (dataset.copyLink !== undefined) return copy(part.href);
    if (dataset.close !== undefined) return close();
    if (dataset.show !== undefined) return openAt(part.href, chosen());
    if (dataset.step !== undefined) return step(Number(dataset.step));
    if (dataset.stop !== undefined) return stopped();
    if (dataset.new !== undefined) return showWaiting();
    if (dataset.path !== undefined) return searchFor(part);
    return search(run.dataset.stream);
  }
  const row = target.closest("#records tbody tr");
  if (!row || !getSelection().isCollapsed) return;
  event.preventDefault();
  choose(row);
});

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    close();
    for (const menu of all(".menu[open]")) menu.open = false;
    return;
  }
  if (event.target.matches("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/") {
    event.preventDefault();
    one("#where")?.focus();
  }
  if (event.key === "j") step(1);
  if (event.key === "k") step(-1);
  if (event.key === "l" && form) {
    form.elements.order.value = "live";
    form.requestSubmit();
  }
});

// The last conditions, in a list under the field.

function conditions() {
  try {
    return JSON.parse(localStorage.getItem("conditions") ?? "[]").filter((text) => typeof text === "string");
  } catch {
    return [];
  }
}

const where = one("#where");
if (where) {
  if (where.value && where.ariaInvalid !== "true") {
    const known = [where.value, ...conditions().filter((text) => text !== where.value)].slice(0, CONDITIONS_MAX);
    localStorage.setItem("conditions", JSON.stringify(known));
  }
  one("#conditions").replaceChildren(...conditions().map((text) => new Option(text, text)));
}
for (const radio of all("[name=order]", form ?? document)) radio.addEventListener("change", () => form.requestSubmit());
form?.addEventListener("submit", () => { for (const field of all("input", form)) if (!field.value) field.disabled = true; });
addEventListener("pageshow", () => { for (const field of all("input:disabled", form ?? document)) field.disabled = false; });
addEventListener("pagehide", stop);
