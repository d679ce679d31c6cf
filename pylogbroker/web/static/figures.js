// Shows figures as they change: the server sends the content of cells by their ids. Nothing else of the page changes.

const RETRY_MS = 5000;
const SILENCE_MS = 60000;  // a tick may take as long, if the pages that are open cost much

const state = Object.assign(document.createElement("small"), { id: "live", className: "soft" });
(document.querySelector(".head .acts") ?? document.querySelector(".head"))?.prepend(state);

let source = null;
let last = "";
let timer = null;

function close() {
  source?.close();
  source = null;
  clearTimeout(timer);
}

function interrupted() {
  close();
  state.textContent = last ? `stopped ${last}, trying again` : "not live, trying again";
  timer = setTimeout(open, RETRY_MS);
}

function show({ time, cells, gone }) {
  for (const [id, [content, kind]] of Object.entries(cells)) {
    const cell = document.getElementById(id);
    if (!cell) continue;  // it came after the page
    if (cell.innerHTML.trim() !== content) cell.innerHTML = content;
    if (kind || cell.hasAttribute("class")) cell.setAttribute("class", kind);
  }
  for (const id of gone) document.getElementById(id)?.setAttribute("title", `not known since ${time}`);
  last = time;
  state.textContent = `live, ${time}`;
}

function open() {
  close();
  if (document.hidden) return;
  source = new EventSource(`/figures${location.pathname}${location.search}`);
  source.addEventListener("figures", (event) => {
    clearTimeout(timer);
    timer = setTimeout(interrupted, SILENCE_MS);
    show(JSON.parse(event.data));
  });
  source.addEventListener("failed", (event) => {
    close();
    state.innerHTML = `stopped ${last}: ${JSON.parse(event.data).html}`;
  });
  source.addEventListener("error", interrupted);
}

document.addEventListener("visibilitychange", open);
addEventListener("address", open);  // the same page with other parameters
addEventListener("pageshow", open);
addEventListener("pagehide", close);
