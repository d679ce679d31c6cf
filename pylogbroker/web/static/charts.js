// Shows the values of a chart under the pointer and by arrow keys. They are those of the table behind it.

const STEPS = { ArrowLeft: -1, ArrowRight: 1, PageDown: -10, PageUp: 10, Home: -Infinity, End: Infinity };
const GAP = 6;

function follow(figure, samples) {
  const plot = figure.querySelector(".plot");
  const mark = Object.assign(document.createElement("div"), { className: "at", hidden: true });
  const text = document.createElement("span");
  const names = [...figure.querySelectorAll("thead th")].slice(1).map((head) => head.textContent);
  let at = -1;

  function show(index) {
    const rows = samples.rows;  // the newest is the first
    at = Math.max(0, Math.min(rows.length - 1, index));
    const [time, ...values] = [...rows[rows.length - 1 - at].cells].map((cell) => cell.textContent);
    const share = rows.length > 1 ? at / (rows.length - 1) : 0;
    text.textContent = `${time}: ${values.map((value, place) => `${names[place]} ${value}`).join(", ")}`;
    mark.style.left = `${100 * share}%`;
    mark.hidden = false;
    const left = share * plot.clientWidth, width = text.offsetWidth;
    const beside = share > 0.5 ? -width - GAP : GAP;
    text.style.left = `${Math.max(-left, Math.min(beside, plot.clientWidth - left - width))}px`;
    plot.setAttribute("aria-valuemax", rows.length - 1);
    plot.setAttribute("aria-valuenow", at);
    plot.setAttribute("aria-valuetext", text.textContent);
  }

  function hide() {
    mark.hidden = true;
  }

  plot.tabIndex = 0;
  plot.setAttribute("role", "slider");
  plot.setAttribute("aria-label", figure.querySelector("svg").getAttribute("aria-label"));
  plot.setAttribute("aria-valuemin", 0);
  mark.append(text);
  plot.append(mark);
  show(samples.rows.length - 1);
  hide();
  plot.addEventListener("pointermove", (event) => {
    const { left, width } = plot.getBoundingClientRect();
    show(Math.round((event.clientX - left) / width * (samples.rows.length - 1)));
  });
  plot.addEventListener("pointerleave", hide);
  plot.addEventListener("focus", () => show(at));
  plot.addEventListener("blur", hide);
  plot.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hide();
    if (!(event.key in STEPS)) return;
    event.preventDefault();
    event.stopPropagation();
    show(at + STEPS[event.key]);
  });
}

for (const figure of document.querySelectorAll(".chart")) {
  const samples = figure.querySelector(".samples tbody");
  if (samples) follow(figure, samples);
}
