// Shows the page as it is every few seconds. While somebody writes in it, or has selected something, only the first line
// goes on. Without this the page is as whole, and does not change.
"use strict";

const EVERY_MS = 10000;
const PATIENCE_MS = 30000;
const told = document.getElementById("refresh");

function isBusy() {
  const at = document.activeElement;
  const writes = at && at.matches("input, select, textarea, button");
  return writes || !document.getSelection().isCollapsed;
}

async function refresh() {
  try {
    const asked = { headers: { Accept: "text/html" }, signal: AbortSignal.timeout(PATIENCE_MS) };
    const answer = await fetch(location.href, asked);
    if (!answer.ok) throw new Error(answer.status);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const rest = isBusy();
    if (rest) takeStanding(page);
    else take(page);
    document.title = page.title;
    say(rest ? "While text is selected, or a field or button has the focus, only the first line goes on." : "");
  } catch {
    doubt();
    say("Parallax does not answer: this is out of date.");
  }
  setTimeout(refresh, EVERY_MS);
}

function takeStanding(page) {
  const [old, made] = [document, page].map((one) => one.querySelector(".standing"));
  if (old && made && !old.isEqualNode(made)) old.replaceWith(made);
}

// Nothing that was good is shown as good once nobody knows.
function doubt() {
  const line = document.querySelector(".standing h1, .standing a");
  const says = "Parallax does not answer";
  if (document.title.startsWith(says)) return;
  document.title = `${says} · ${document.title}`;
  if (!line) return;
  line.closest(".standing").className = "standing unknown";
  line.prepend(`${says}. Its last word: `);
}

// What is in view stays where it is, whatever came or went above it; at the top of the page the news is in view.
function take(page) {
  const links = () => [...document.querySelectorAll("main a, main [id]")];
  const nameOf = (one) => one.id || one.getAttribute("href");
  const at = document.activeElement;
  const isSeen = (one) => one.getBoundingClientRect().top >= 0 && one.getBoundingClientRect().top < innerHeight;
  const focused = at.closest("main a, main summary") && nameOf(at);
  const held = scrollY > 0 && ((focused && isSeen(at) && at) || links().find(isSeen));
  const [name, top] = held ? [nameOf(held), held.getBoundingClientRect().top] : [];
  const unfolded = [...document.querySelectorAll("details[open]")].map((part) => part.id);
  const scrolled = [...document.querySelectorAll(".scroll")].map((part) => part.scrollLeft);
  const [old, made] = [document, page].map((one) => [...one.querySelector("main").children]);
  if (old.length === made.length) old.forEach((part, i) => part.isEqualNode(made[i]) || part.replaceWith(made[i]));
  else document.querySelector("main").replaceWith(page.querySelector("main"));
  document.querySelector("time").replaceWith(page.querySelector("time"));
  unfolded.map((id) => document.getElementById(id)).forEach((part) => { if (part) part.open = true; });
  document.querySelectorAll(".scroll").forEach((part, i) => { part.scrollLeft = scrolled[i] || 0; });
  const same = (wanted) => links().find((one) => nameOf(one) === wanted);
  if (focused && !document.contains(at) && same(focused)) same(focused).focus({ preventScroll: true });
  if (name && same(name)) scrollBy({ top: same(name).getBoundingClientRect().top - top, behavior: "instant" });
}

function say(text) {
  if (told.textContent !== text) told.textContent = text;
}

if (!document.querySelector("form.act")) setTimeout(refresh, EVERY_MS);
