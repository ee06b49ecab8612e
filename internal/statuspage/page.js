"use strict";
// The page is complete without this script, which only updates it. Open details stay open.
const live = document.getElementById("live");
const content = document.getElementById("content");
const stream = new EventSource("stream");
let loading = false, again = false;

async function follow() {
  if (loading) { again = true; return; }
  loading = true;
  try {
    const answer = await fetch("?part=content");
    if (answer.ok) {
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").body;
      keep(fresh);
      content.replaceChildren(...fresh.childNodes);
    }
  } finally {
    loading = false;
    if (again) { again = false; follow(); }
  }
}

// keep opens in the new content the details that are open in the old one.
function keep(fresh) {
  const old = content.querySelectorAll("details"), now = fresh.querySelectorAll("details");
  if (old.length === now.length) { old.forEach((d, i) => { now[i].open = d.open; }); }
}

stream.addEventListener("change", () => { if (!content.contains(document.activeElement)) { follow(); } });
stream.addEventListener("open", () => { live.textContent = "This page is updated when the cloud changes."; });
stream.addEventListener("error", () => { live.textContent = "The cloud does not answer; this is its last known state."; });
