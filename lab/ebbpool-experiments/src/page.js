// The filter of the page: shows the experiments of the chosen papers with claims of the chosen verdicts. A group
// without a choice excludes nothing.
(() => {
"use strict";
const form = document.getElementById("filter");
const shown = document.getElementById("shown");
const all = form.querySelector("button[type=reset]");
const sections = [...document.querySelectorAll("main > section")];
const claimsOf = (section) => [...section.querySelectorAll(".claims > li")];
const chosen = (name) => new Set([...form.querySelectorAll(`input[name=${name}]:checked`)].map((box) => box.value));

/** A number of things in words. */
function counted(count, one, several) {
  return `${count} ${count === 1 ? one : several}`;
}

function follow() {
  const [papers, verdicts] = [chosen("paper"), chosen("verdict")];
  let [claims, experiments] = [0, 0];
  for (const section of sections) {
    const isOfPaper = papers.size === 0 || papers.has(section.dataset.paper);
    let count = 0;
    for (const claim of claimsOf(section)) {
      claim.hidden = !(verdicts.size === 0 || verdicts.has(claim.dataset.verdict));
      if (!claim.hidden) count += 1;
    }
    section.hidden = !isOfPaper || (verdicts.size > 0 && count === 0);
    if (!section.hidden) {
      claims += count;
      experiments += 1;
    }
    const entry = document.querySelector(`#contents li[data-of="${CSS.escape(section.id)}"]`);
    if (entry !== null) entry.hidden = section.hidden;
  }
  for (const group of document.querySelectorAll("#contents > div")) {
    group.hidden = group.querySelector("li:not([hidden])") === null;
  }
  const isFiltered = papers.size + verdicts.size > 0;
  all.hidden = !isFiltered;
  const found = `${counted(claims, "claim", "claims")} of ${counted(experiments, "experiment", "experiments")}`;
  shown.textContent = isFiltered ? `Shown: ${found}.` : `${found}.`;
}

/** A link to an experiment that the filter hides shows all of them. */
function showLinked() {
  const linked = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (linked?.hidden !== true) return;
  form.reset();
  follow();
  linked.scrollIntoView();
}

form.hidden = false;
form.addEventListener("input", follow);
form.addEventListener("submit", (event) => event.preventDefault());
// The boxes change after the event.
form.addEventListener("reset", () => setTimeout(follow));
addEventListener("hashchange", showLinked);
follow();
showLinked();
})();
