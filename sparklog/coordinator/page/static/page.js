// Every few seconds, fetch the same page and replace what it shows. Scroll position, focus and open parts stay.
// A page without data-refresh stays as it is: reading it again would cost more, and its records do not change.
"use strict";

const EVERY_MS = 8000;
const live = document.getElementById("live");
const pause = document.getElementById("pause");
let paused = false;

async function refresh() {
  const main = document.querySelector("main[data-refresh]");
  const busy = main.contains(document.activeElement) && document.activeElement.matches("input, select");
  if (paused || busy || document.hidden || !getSelection().isCollapsed) return;
  try {
    const headers = { "sparklog-refresh": "1" }; // browsers that show the same share the answer
    const answer = await fetch(location.href, { cache: "no-store", redirect: "error", headers });
    if (!answer.ok) throw new Error(answer.statusText);
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    const replaced = fresh.querySelector("main[data-refresh]");
    for (const old of main.querySelectorAll("details[id]")) {
      const same = replaced.querySelector("#" + CSS.escape(old.id));
      if (same) same.open = old.open;
    }
    const scrolled = [...main.querySelectorAll(".scroll")].map((part) => part.scrollLeft);
    main.replaceChildren(...replaced.childNodes);
    main.querySelectorAll(".scroll").forEach((part, at) => { part.scrollLeft = scrolled[at] || 0; });
    document.title = fresh.title;
    say("live", false);
  } catch (error) {
    say("no answer, shown as of " + document.getElementById("rendered").textContent, true);
  }
}

function say(text, wrong) {
  live.textContent = text;
  live.classList.toggle("gone", wrong);
}

pause.addEventListener("click", () => {
  paused = !paused;
  pause.setAttribute("aria-pressed", String(paused));
  pause.textContent = paused ? "resume" : "pause";
  say(paused ? "paused" : "live", false);
  refresh();
});

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button.copy");
  if (!button) return;
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
    button.textContent = "copied";
  } catch (error) { // the browser does not allow it: select the text, to be copied by hand
    getSelection().selectAllChildren(button.previousElementSibling);
    button.textContent = "selected";
  }
  setTimeout(() => { button.textContent = "copy"; }, 1500);
});

if (document.querySelector("main[data-refresh]")) {
  document.querySelector(".live").hidden = false;
  setInterval(refresh, EVERY_MS);
}
