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

function take(page) {
  const focused = document.activeElement && document.activeElement.getAttribute("href");
  const scrolled = [...document.querySelectorAll(".scroll")].map((part) => part.scrollLeft);
  for (const part of ["main", "time"]) {
    document.querySelector(part).replaceWith(page.querySelector(part));
  }
  document.title = page.title;
  document.querySelectorAll(".scroll").forEach((part, i) => { part.scrollLeft = scrolled[i] || 0; });
  if (focused) {
    const same = [...document.querySelectorAll("a")].find((a) => a.getAttribute("href") === focused);
    if (same) same.focus({ preventScroll: true });
  }
}

function say(text) {
  if (told.textContent !== text) told.textContent = text;
}

if (!document.querySelector("form.act")) setTimeout(refresh, EVERY_MS);
