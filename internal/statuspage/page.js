"use strict";
// The page is complete without this script, which only updates its sections. Open details and the focus stay where
// they are. A section waits while its reader types, has selected some of its text or corrects a refused form.
const live = document.getElementById("live");
const waiting = new Set(); // names of sections that have changed
const pause = 5000; // milliseconds before something that failed is tried again
let loading = false;
let connected = false;

async function update() {
  if (loading) { return; }
  loading = true;
  for (let section = next(); section; section = next()) {
    const name = section.dataset.section;
    waiting.delete(name);
    try {
      await load(section, name);
    } catch {
      waiting.add(name);
      setTimeout(update, pause);
      break;
    }
  }
  loading = false;
  say();
}

// next is a section that is to be updated now.
function next() { return changed().find((section) => !isBusy(section)); }

function changed() {
  return Array.from(document.querySelectorAll("[data-section]")).filter((section) => waiting.has(section.dataset.section));
}

function isBusy(section) {
  const at = document.activeElement, selection = getSelection();
  return Boolean(section.querySelector("[data-refused]")) || section.contains(at) && isEdited(at) ||
    !selection.isCollapsed && section.contains(selection.anchorNode);
}

// isEdited tells whether a field, or another one of its form, has been changed.
function isEdited(field) {
  return [field, ...(field.form?.elements ?? [])].some((e) => e.options ?
    Array.from(e.options).some((o, i) => o.selected !== (o.defaultSelected || i === 0 && !e.querySelector("[selected]"))) :
    e.type !== "hidden" && e.value !== e.defaultValue);
}

// say tells whether the page shows what the cloud has.
function say() {
  const behind = changed().map((section) => section.dataset.section).join(", ");
  let text = "This page is updated when the cloud changes.";
  if (!connected) {
    text = "The cloud does not answer; this is its last known state.";
  } else if (behind) {
    text = "Behind: " + behind + ". Sections are not updated while you type or have selected text.";
  }
  if (live.textContent !== text) { live.textContent = text; }
}

async function load(section, name) {
  const query = new URLSearchParams(location.search);
  if (name === "leaks" && query.has("leaks")) { return; } // a check that was asked for once
  query.set("part", name);
  const answer = await fetch("?" + query, { headers: { "If-None-Match": section.dataset.etag } });
  if (answer.status === 304) { return; }
  if (!answer.ok) { throw new Error(answer.statusText); }
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").body;
  if (isBusy(section)) { throw new Error("busy"); }
  const focus = section.contains(document.activeElement) ? selector(document.activeElement) : "";
  keep(section, fresh);
  section.replaceChildren(...fresh.childNodes);
  section.dataset.etag = answer.headers.get("ETag");
  if (focus) { section.querySelector(focus)?.focus({ preventScroll: true }); }
}

// keep opens in the new content the details that are open in the old one, and those with news.
function keep(section, fresh) {
  const open = new Set(Array.from(section.querySelectorAll("details[open]"), (d) => d.dataset.key));
  const news = section.querySelector("[data-news]")?.dataset.news;
  fresh.querySelectorAll("details").forEach((d) => {
    d.open = open.has(d.dataset.key) || Boolean(d.dataset.news) && d.dataset.news !== news;
  });
}

// selector finds in new content what has the focus in the old one.
function selector(element) {
  if (element.localName === "summary") { return `details[data-key="${CSS.escape(element.parentElement.dataset.key)}"] > summary`; }
  const name = ["href", "name", "aria-labelledby"].find((attribute) => element.hasAttribute(attribute));
  return element.localName + (name ? `[${name}="${CSS.escape(element.getAttribute(name))}"]` : "");
}

function connect() {
  const stream = new EventSource("stream");
  stream.addEventListener("change", (event) => { event.data.split(" ").forEach((name) => waiting.add(name)); update(); });
  stream.addEventListener("open", () => { connected = true; say(); });
  stream.addEventListener("error", () => {
    connected = false;
    say();
    if (stream.readyState === EventSource.CLOSED) { setTimeout(connect, pause); } // such as where too many pages are open
  });
}

// offerActions offers the actions of the operation that is chosen.
function offerActions(form) {
  const chosen = form.elements.operation.selectedOptions[0], action = form.elements.action, before = action.value;
  const offered = (chosen?.dataset.actions ?? "").trim().split(" ").filter(Boolean);
  action.replaceChildren(new Option("", ""), ...offered.map((name) => new Option(name, name)));
  if (offered.includes(before)) { action.value = before; }
  form.elements.subject.title = chosen?.dataset.subject ?? "";
}

// filterOperations leaves the operations whose names have all words, and what is chosen.
function filterOperations(words, form) {
  form.elements.operation.querySelectorAll("optgroup").forEach((group) => {
    const options = Array.from(group.children);
    options.forEach((o) => { o.hidden = o.disabled = !o.selected && !words.every((word) => o.value.includes(word)); });
    group.hidden = options.every((o) => o.hidden);
  });
}

connect();
document.addEventListener("change", (event) => { if (event.target.name === "operation") { offerActions(event.target.form); } });
document.addEventListener("input", (event) => {
  const form = event.target.name === "operations" && event.target.closest("details")?.querySelector("form.fields");
  if (form) { filterOperations(event.target.value.split(/\s+/), form); }
});
document.addEventListener("focusout", () => setTimeout(update));
document.addEventListener("selectionchange", () => { if (waiting.size) { setTimeout(update); } });
