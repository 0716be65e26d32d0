// Shows the page as it stands every few seconds, but not while somebody writes in it, reads with the keyboard in it,
// or looks at another window. Without this the page is as whole, and stands still.
"use strict";

const EVERY_MS = 10000;
const told = document.getElementById("refresh");

function isBusy() {
  const at = document.activeElement;
  const writes = at && at.matches("input, select, textarea, button");
  return document.hidden || writes || !document.getSelection().isCollapsed;
}

async function refresh() {
  if (!isBusy()) {
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
      if (!answer.ok) throw new Error(answer.status);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (!isBusy()) take(page);
      say("");
    } catch {
      say("Parallax does not answer: this is out of date.");
    }
  }
  setTimeout(refresh, EVERY_MS);
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
  document.title = page.title;
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
