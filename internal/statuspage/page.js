"use strict";
// The page is whole without this: here it only follows the cloud. What is open stays open.
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

// keep opens in the new content what is open in the old, and leaves the focus where it is.
function keep(fresh) {
  const old = content.querySelectorAll("details"), now = fresh.querySelectorAll("details");
  if (old.length === now.length) { old.forEach((d, i) => { now[i].open = d.open; }); }
}

stream.addEventListener("change", () => { if (!content.contains(document.activeElement)) { follow(); } });
stream.addEventListener("open", () => { live.textContent = "This page follows the cloud."; });
stream.addEventListener("error", () => { live.textContent = "The cloud does not answer; this is its last state."; });
