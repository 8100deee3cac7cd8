// The script makes the pages quicker; without it everything can still be read and sent.

const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const lang = document.documentElement.lang;

// --- times -------------------------------------------------------------------------------------------------------

const local = new Intl.DateTimeFormat(lang, { dateStyle: "medium", timeStyle: "medium" });
const ticks = {
  hour: new Intl.DateTimeFormat(lang, { hour: "2-digit", minute: "2-digit" }), day: new Intl.DateTimeFormat(lang, { month: "short", day: "numeric" }),
  second: new Intl.DateTimeFormat(lang, { timeStyle: "medium" }),
};
const age = new Intl.RelativeTimeFormat(lang, { numeric: "auto", style: "short" });
const steps = [[60, "second", 1], [3600, "minute", 60], [86400, "hour", 3600], [Infinity, "day", 86400]];

function ago(at) {
  const seconds = (at - Date.now()) / 1000;
  const [, unit, size] = steps.find(([limit]) => Math.abs(seconds) < limit);
  return age.format(Math.trunc(seconds / size), unit);
}

function writeTimes(root = document) {
  for (const time of all("time[data-local], time[data-ago]", root)) {
    const at = new Date(time.dateTime);
    if (isNaN(at)) continue;
    time.title = `${local.format(at)} · ${at.toISOString().slice(0, 19).replace("T", " ")} UTC`;
    time.textContent = time.hasAttribute("data-ago") ? ago(at) : (ticks[time.dataset.local] ?? local).format(at);
  }
}

// --- regions that refresh themselves -----------------------------------------------------------------------------

// merge makes a node like another one, and keeps what a person has done to it: focus, selection, scroll, open details.
function merge(old, fresh) {
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName || old.id !== fresh.id) return old.replaceWith(fresh);
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
    return;
  }
  if (old.matches("time[data-local], time[data-ago]") && old.dateTime === fresh.dateTime) return;
  const own = old.matches("details, dialog") ? ["open"] : old.matches("tr") ? ["data-at", "tabindex"] : [];
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name) && !own.includes(name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value && !own.includes(name)) old.setAttribute(name, value);
  if (old.matches("input, textarea, select")) return;
  const keyed = new Map(all(":scope > [id]", old).map((child) => [child.id, child]));
  let at = old.firstChild;
  for (const child of [...fresh.childNodes]) {
    const same = child.id && keyed.get(child.id);
    if (same && same !== at) old.insertBefore(same, at);
    if (same) at = same;
    if (!at || (!same && at.id && keyed.has(at.id) && [...fresh.childNodes].some((n) => n.id === at.id))) {
      old.insertBefore(child, at);
      continue;
    }
    const next = at.nextSibling;
    merge(at, child);
    at = next;
  }
  while (at) { const next = at.nextSibling; at.remove(); at = next; }
}

const live = document.querySelector("[data-live]");
const liveText = document.querySelector("[data-live-text]");
const liveToggle = document.querySelector("[data-live-toggle]");
let stopped = false, fresh = Date.now(), away = false;

function sayLive() {
  const word = stopped ? liveText.dataset.stopped : away ? liveText.dataset.away : liveText.dataset.fresh;
  const text = `${word} ${stopped || away ? new Date(fresh).toLocaleTimeString(lang) : ago(fresh)}`;
  if (liveText.textContent !== text) liveText.textContent = text;
  live.classList.toggle("away", away);
}

async function refresh(region) {
  const headers = { "Dlq-Region": region.dataset.region };
  if (region.dataset.tag) headers["If-None-Match"] = region.dataset.tag;
  const answer = await fetch(location.href, { headers, cache: "no-store", signal: AbortSignal.timeout(20000), redirect: "error" });
  if (answer.status === 401) return location.reload();
  if (!answer.ok && answer.status !== 304) throw new Error(answer.status);
  if (answer.status === 200) {
    const text = await answer.text();
    if (stopped || region.contains(document.activeElement?.closest("dialog[open]"))) return;
    const copy = region.cloneNode(false);
    copy.innerHTML = text;
    writeTimes(copy);
    showScripted(copy);
    merge(region, copy);
    countSelected();
    region.dataset.tag = answer.headers.get("ETag") ?? "";
  }
}

async function watch(region) {
  // A page says within the region how often it wants to be read, once that has changed.
  const every = () => 1000 * Math.max(1, Number((region.querySelector("[data-every]") ?? region).dataset.every) || 5);
  let wait = every();
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, wait));
    if (stopped || document.hidden || !region.isConnected || region.querySelector("input[name=ids]:checked")) continue;
    try {
      await refresh(region);
      [away, fresh, wait] = [false, Date.now(), every()];
    } catch {
      away = true;
      wait = Math.min(wait * 2, 60000);
    }
    sayLive();
  }
}

function toggleLive() {
  stopped = !stopped;
  liveToggle.setAttribute("aria-pressed", String(stopped));
  sayLive();
}

const regions = all("[data-region]");
if (regions.length) {
  live.hidden = false;
  liveToggle.addEventListener("click", toggleLive);
  regions.forEach(watch);
  setInterval(sayLive, 5000);
  sayLive();
}

// --- copying, folding, dialogs, forms ----------------------------------------------------------------------------

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  if (button.dataset.show) document.getElementById(button.dataset.show)?.showModal();
  if (button.dataset.copy) {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy)?.textContent ?? "");
    const before = button.textContent;
    button.textContent = button.dataset.copied ?? "✓";
    setTimeout(() => { button.textContent = before; }, 1500);
  }
});

// A second click on a form that is being sent does nothing. The server would not do it twice either.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method !== "post") return;
  if (form.dataset.sent) return event.preventDefault();
  form.dataset.sent = "1";
});
addEventListener("pageshow", () => all("form[data-sent]").forEach((form) => delete form.dataset.sent));

function showScripted(root = document) {
  all("[data-needs-script]", root).forEach((element) => { element.hidden = false; });
}
showScripted();

// The buttons for marked rows are off while no row is marked. A list with marked rows is not refreshed: none of them may leave it.
function countSelected() {
  for (const form of all("form[data-selection]")) {
    const count = [...form.elements].filter((element) => element.name === "ids" && element.checked).length;
    const text = form.querySelector("[data-selected]");
    text.textContent = `${text.dataset.selected} ${count}${count ? text.dataset.waits : ""}`;
    for (const button of all("button", form)) button.disabled = !count || "off" in button.dataset;
  }
}

document.addEventListener("change", (event) => {
  if (event.target.matches("[data-select-all]")) all("input[name=ids]").forEach((box) => { box.checked = event.target.checked; });
  countSelected();
});
addEventListener("pageshow", countSelected);

// --- keys --------------------------------------------------------------------------------------------------------

let went = 0;

function move(by) {
  const rows = all("table.rows tbody tr");
  if (!rows.length) return;
  const current = rows.findIndex((row) => row.hasAttribute("data-at"));
  const next = rows[Math.min(rows.length - 1, Math.max(0, current + by))];
  rows[current]?.removeAttribute("data-at");
  next.setAttribute("data-at", "");
  (next.querySelector("a") ?? next).focus();
}

document.addEventListener("keydown", (event) => {
  if (!("keys" in document.body.dataset) || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, textarea, select, [contenteditable]") || document.querySelector("dialog[open]")) return;
  const key = event.key;
  if (Date.now() - went < 1500) {
    went = 0;
    const link = document.querySelector(`[data-go="${CSS.escape(key)}"]`);
    if (!link) return;
    event.preventDefault();
    if (link.control) link.control.focus(); // of a label
    else link.click();
    if (link.matches("summary")) link.parentElement.querySelector("select, input:not([type=hidden])")?.focus();
    return;
  }
  if (key === "g") went = Date.now();
  else if (key === "?") document.getElementById("keys").showModal();
  else if (key === "j" || key === "k") move(key === "j" ? 1 : -1);
  else if (key === "." && regions.length) toggleLive();
  else if (key === "/") {
    const search = document.querySelector("[data-search]");
    if (!search) return;
    event.preventDefault();
    search.closest("details")?.setAttribute("open", "");
    search.focus();
  }
});

writeTimes();
setInterval(() => all("time[data-ago]").forEach((time) => { time.textContent = ago(new Date(time.dateTime)); }), 10000);
