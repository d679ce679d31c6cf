// Searches a table as somebody types: the server searches all rows, and the address follows.

import { replaceParts, whenTyped } from "/parts.js";

for (const form of document.querySelectorAll("form[data-parts]")) {
  const search = async () => {
    const given = [...new FormData(form)].filter(([, value]) => value !== "");
    const query = new URLSearchParams(given).toString();
    const address = query ? `${form.getAttribute("action")}?${query}` : form.getAttribute("action");
    if (!await replaceParts(address, form.dataset.parts.split(" "))) return;
    history.replaceState(null, "", address);
    dispatchEvent(new Event("address"));
  };
  for (const field of form.querySelectorAll("input[type=search]")) whenTyped(field, search);
  for (const field of form.querySelectorAll("input[type=checkbox], select")) field.addEventListener("change", search);
}

// Says what a new value of a setting would do, while it is typed.
for (const form of document.querySelectorAll("form[data-preview]")) {
  const field = form.elements.value;
  const preview = () => replaceParts(`${form.dataset.preview}&value=${encodeURIComponent(field.value)}`, ["consequence"]);
  if (field.matches("select")) field.addEventListener("change", preview);
  else whenTyped(field, preview);
}
