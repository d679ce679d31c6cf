// Replaces parts of a page by those of the same page with other parameters: the server renders both.

let asked = null;

/** Load an address, and put its elements in the place of those with the same ids. Later answers win. */
export async function replaceParts(address, ids) {
  asked?.abort();
  asked = new AbortController();
  let answer;
  try {
    answer = await fetch(address, { signal: asked.signal });
  } catch {
    return false;  // a later request has come, or the broker has gone: what is shown stays
  }
  const other = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const id of ids) {
    const part = other.getElementById(id);
    if (part) document.getElementById(id)?.replaceWith(document.adoptNode(part));
  }
  return true;
}

/** Call a function with what somebody types, once it rests for a moment. */
export function whenTyped(field, act) {
  let timer = null;
  field.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(act, 150);
  });
}
