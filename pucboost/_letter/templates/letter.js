"use strict";
// The table holds every number; this shows the row that the switches choose. It computes and sends nothing.
(() => {
  const element = (id) => document.getElementById(id);
  const switches = [...document.querySelectorAll("#switches input")];
  const table = element("table");
  const rows = new Map([...table.querySelectorAll("tr[data-set]")].map((row) => [Number(row.dataset.set), row]));
  let shown = null;

  const show = () => {
    const set = switches.reduce((sum, one, place) => sum + (one.checked ? 2 ** place : 0), 0);
    const row = rows.get(set);
    if (row === shown) return;
    if (shown) shown.classList.remove("chosen");
    row.classList.add("chosen");
    element("told").textContent = row.cells[1].textContent;
    element("compared").textContent = row.cells[2].textContent;
    shown = row;
  };

  switches.forEach((one) => {
    one.addEventListener("change", show);
    // A checkbox answers to the space bar; people also try Enter on what looks like a switch.
    one.addEventListener("keydown", (event) => {
      if (event.key === "Enter") one.click();
    });
  });
  element("reset").addEventListener("click", () => {
    switches.forEach((one) => { one.checked = true; });
    show();
  });
  element("switches").hidden = false;
  table.open = false;
  // On paper nothing unfolds, but nobody wants a thousand rows there.
  let opened = false;
  addEventListener("beforeprint", () => {
    opened = !table.open && rows.size <= 64;
    if (opened) table.open = true;
  });
  addEventListener("afterprint", () => { if (opened) table.open = false; });
  show();
})();
