"use strict";
// The page is complete without this script, which only updates its sections. Open details stay
// open, and a section with the focus is updated when it has lost it.
const live = document.getElementById("live");
const stream = new EventSource("stream");
const waiting = new Set(); // names of sections that have changed
let loading = false;

async function update() {
  if (loading) { return; }
  loading = true;
  try {
    for (let section = next(); section; section = next()) {
      waiting.delete(section.dataset.section);
      await load(section, section.dataset.section);
    }
  } finally { loading = false; }
}

// next is a section that is to be updated now.
function next() {
  return Array.from(document.querySelectorAll("[data-section]")).find(
    (section) => waiting.has(section.dataset.section) && !section.contains(document.activeElement));
}

async function load(section, name) {
  const query = new URLSearchParams(location.search);
  if (name === "leaks" && query.has("leaks")) { return; } // a check that was asked for once
  query.set("part", name);
  const answer = await fetch("?" + query, { headers: { "If-None-Match": section.dataset.etag } });
  if (answer.status !== 200) { return; }
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").body;
  keep(section, fresh);
  section.replaceChildren(...fresh.childNodes);
  section.dataset.etag = answer.headers.get("ETag");
}

// keep opens in the new content the details that are open in the old one.
function keep(section, fresh) {
  const open = new Set(Array.from(section.querySelectorAll("details[open]"), (d) => d.dataset.key));
  fresh.querySelectorAll("details").forEach((d) => { d.open = open.has(d.dataset.key); });
}

stream.addEventListener("change", (event) => { event.data.split(" ").forEach((name) => waiting.add(name)); update(); });
document.addEventListener("focusout", () => setTimeout(update));
stream.addEventListener("open", () => { live.textContent = "This page is updated when the cloud changes."; });
stream.addEventListener("error", () => { live.textContent = "The cloud does not answer; this is its last known state."; });
