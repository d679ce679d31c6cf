// Sets the colours that were chosen. It is loaded before the page is drawn, so that others do not flash.
document.documentElement.dataset.theme = localStorage.getItem("theme") ?? "";

document.addEventListener("DOMContentLoaded", () => {
  const choice = document.createElement("select");
  choice.append(new Option("System", ""), new Option("Light", "light"), new Option("Dark", "dark"));
  choice.value = document.documentElement.dataset.theme;
  choice.setAttribute("aria-label", "Colours");
  choice.addEventListener("change", () => {
    localStorage.setItem("theme", choice.value);
    document.documentElement.dataset.theme = choice.value;
  });
  const name = Object.assign(document.createElement("span"), { className: "word", textContent: "Colours" });
  const label = document.createElement("label");
  label.append(name, choice);
  document.getElementById("foot").prepend(label);
});
