// Follows new records of a topic on its page of records. All that others wrote becomes text, never HTML.

const ROWS_MAX = 200;
const RETRY_MS = 2000;

const panel = document.getElementById("live");
const button = document.getElementById("follow");
const followed = document.getElementById("followed");
const state = document.getElementById("live-state");
const heading = document.querySelector("#records th");
const rows = document.querySelector("#records tbody");

let source = null;
let retry = null;
let after = panel.dataset.from;
let skipped = 0;

function element(name, text) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  return made;
}

function content(it) {
  if (it.format === "null") return [element("em", "null")];
  const shown = element("pre", it.text);
  shown.className = it.format;
  shown.tabIndex = 0;
  const made = [shown];
  if (it.format === "hex") made.push(element("small", "hexadecimal "));
  if (it.is_cut) made.push(element("small", `cut, ${it.bytes} B`));
  return made;
}

function cell(...parts) {
  const made = element("td");
  made.append(...parts);
  return made;
}

function time(milliseconds) {
  const date = new Date(milliseconds);
  if (milliseconds < 0) return "none";
  return isNaN(date) ? String(milliseconds) : date.toISOString().replace("T", " ").replace("Z", "");
}

function row(partition, record) {
  const made = element("tr");
  const offset = element("th", followed.value === "" ? `${partition}, ${record.offset}` : record.offset);
  offset.scope = "row";
  const headers = record.headers.map((header) => {
    const line = element("div", `${header.name}: `);
    line.append(...content(header.value));
    return line;
  });
  const hidden = record.header_count - record.headers.length;
  if (hidden > 0) headers.push(element("small", `${record.header_count} in all`));
  made.append(
    offset,
    cell(time(record.timestamp)),
    cell(...content(record.key)),
    cell(...content(record.value)),
    cell(...headers),
  );
  return made;
}

function say(text) {
  const all = skipped ? `${text} ${skipped} records were skipped.` : text;
  if (state.textContent !== all) state.textContent = all;
}

function show(event) {
  const data = JSON.parse(event.data);
  after = event.lastEventId;
  skipped += data.skipped;
  const root = document.documentElement;
  const isAtEnd = root.scrollHeight - root.scrollTop - root.clientHeight < 80;
  rows.append(...data.records.map((record) => row(data.partition, record)));
  while (rows.children.length > ROWS_MAX) rows.firstElementChild.remove();
  if (isAtEnd) root.scrollTop = root.scrollHeight;
  say("Following.");
}

function stop(text) {
  if (source) source.close();
  clearTimeout(retry);
  source = retry = null;
  button.textContent = "Follow new records";
  button.setAttribute("aria-pressed", "false");
  say(text);
}

function follow() {
  const given = { partition: followed.value, search: panel.dataset.search };
  const parameters = new URLSearchParams({ ...given, format: panel.dataset.format, after });
  source = new EventSource(`api/topics/${encodeURIComponent(panel.dataset.topic)}/live?${parameters}`);
  source.addEventListener("open", () => say("Following."));
  source.addEventListener("records", show);
  source.addEventListener("ended", (event) => stop(`Ended: ${JSON.parse(event.data).error}.`));
  source.addEventListener("error", () => {
    say("Not connected; trying again.");
    if (source && source.readyState === EventSource.CLOSED) {  // an answer other than events, as of a broker that starts
      source.close();
      retry = setTimeout(follow, RETRY_MS);
    }
  });
  button.textContent = "Pause";
  button.setAttribute("aria-pressed", "true");
}

button.addEventListener("click", () => {
  if (source) {
    stop("Paused.");
  } else {
    const end = document.getElementById("records-end");
    if (end) end.remove();  // it leads to records that are shown from now on
    follow();
  }
});

followed.addEventListener("change", () => {
  const wasOn = source !== null;
  stop("");
  after = "";  // begin at the end of the others
  rows.replaceChildren();
  heading.textContent = followed.value === "" ? "Partition, offset" : "Offset";
  if (wasOn) follow();
});

panel.hidden = false;
