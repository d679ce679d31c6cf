// Keys, menus, dialogs, and names to go to as they are typed. Links and forms do all of it without this.

import { replaceParts, whenTyped } from "/parts.js";

const one = (query) => document.querySelector(query);
const goTo = one(".goto input");

function closeMenus(but) {
  for (const menu of document.querySelectorAll(".menu[open]")) if (!menu.contains(but)) menu.open = false;
}

const here = one(".places [aria-current]");
here?.parentElement.scrollTo({ left: here.offsetLeft - 100 });

whenTyped(goTo, () => {
  if (goTo.value.trim()) replaceParts(`/go?to=${encodeURIComponent(goTo.value)}`, ["go"]);
  else one("#go").replaceChildren();
});

document.addEventListener("click", (event) => {
  closeMenus(event.target);
  if (!event.target.closest(".goto")) one("#go").replaceChildren();
  const copied = event.target.closest("[data-copy]");
  if (copied) navigator.clipboard?.writeText(copied.dataset.copy).then(() => toast("Copied."));
});

function toast(text) {
  one(".toast")?.remove();
  const shown = Object.assign(document.createElement("div"), { className: "toast", textContent: text });
  shown.setAttribute("role", "status");
  document.body.append(shown);
  setTimeout(() => shown.remove(), 4000);
}

// A button that destroys is grey until the name is written; the server checks it again.
for (const form of document.querySelectorAll("form[data-confirm]")) {
  const button = form.querySelector("button.main");
  const check = () => { button.disabled = form.elements.confirm.value !== form.dataset.confirm; };
  form.elements.confirm.addEventListener("input", check);
  check();
}

function move(step) {
  const links = [...document.querySelectorAll("#go a")];
  const at = links.indexOf(document.activeElement) + step;
  (links[at] ?? goTo).focus();
}

document.addEventListener("keydown", (event) => {
  if (event.key === "k" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    goTo.select();
    return;
  }
  if (event.key === "Escape") {
    const open = one(".menu[open] > summary");
    closeMenus(null);
    one("#go").replaceChildren();
    open?.focus();
    return;
  }
  if (event.target.closest?.(".goto") && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
    event.preventDefault();
    move(event.key === "ArrowDown" ? 1 : -1);
    return;
  }
  if (event.target.matches("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
  const found = { "/": "#q", "[": "a[rel=prev]", "]": "a[rel=next]", "?": ".foot a[href='/style#keys']" }[event.key];
  const target = found && one(found);
  if (!target) return;
  event.preventDefault();
  if (event.key === "/") target.focus();
  else target.click();
});
