"use strict";
// Search, filter and sort of the cases. All that is told is told without this, too.
(() => {
  const list = document.getElementById("list");
  if (!list) return;
  const form = document.getElementById("filter");
  const search = document.getElementById("search");
  const suite = document.getElementById("suite");
  const sort = document.getElementById("sort");
  const found = document.getElementById("found");
  const boxes = [...form.querySelectorAll("input[type=checkbox]")];
  const cases = [...list.children].map((item) => ({
    item, text: null, status: item.dataset.status, suite: item.dataset.suite,
    number: +item.dataset.number, order: +item.dataset.order, seconds: +item.dataset.seconds,
  }));
  const orders = {
    worst: (a, b) => a.order - b.order || a.number - b.number,
    run: (a, b) => a.number - b.number,
    slow: (a, b) => b.seconds - a.seconds || a.number - b.number,
  };
  const filter = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const statuses = new Set(boxes.filter((box) => box.checked).map((box) => box.value));
    let shown = 0;
    for (const c of cases) {
      if (words.length) c.text ??= c.item.textContent.toLowerCase();
      const on = (!statuses.size || statuses.has(c.status)) && (!suite.value || c.suite === suite.value) &&
        words.every((word) => c.text.includes(word));
      c.item.hidden = !on;
      shown += on;
    }
    found.textContent = shown === cases.length ? "" : shown + " of " + cases.length + " shown";
  };
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  sort.addEventListener("change", () => list.append(...cases.sort(orders[sort.value]).map((c) => c.item)));
  document.getElementById("fold").addEventListener("click", (event) => {
    const folds = [...list.querySelectorAll("li:not([hidden]) > details")];
    const open = folds.some((fold) => !fold.open);
    for (const fold of folds) fold.open = open;
    event.target.textContent = open ? "Fold all" : "Open all";
  });
  form.hidden = false;
})();
