"use strict";
// The table holds every number; this shows the row that the switches choose. It computes and sends nothing.
(() => {
  const element = (id) => document.getElementById(id);
  const switches = [...document.querySelectorAll("#switches input")];
  const table = element("table");
  const rows = new Map([...table.querySelectorAll("tr[data-set]")].map((row) => [row.dataset.set, row]));
  let shown = null;

  const show = () => {
    const set = switches.reduce((sum, one, place) => sum + (one.checked ? 1n << BigInt(place) : 0n), 0n);
    const row = rows.get(set.toString());
    if (row === shown) return;
    if (shown) shown.classList.remove("chosen");
    row.classList.add("chosen");
    element("told").textContent = row.cells[1].textContent;
    element("compared").textContent = row.cells[2].textContent;
    shown = row;
  };

  // A switch and all that it needs: these go on with it, and off goes whatever needs it.
  const above = (place) => [place, ...(switches[place].dataset.needs || "").split(" ").filter(Boolean).map(Number)];

  switches.forEach((one, place) => {
    one.addEventListener("change", () => {
      if (one.checked) above(place).forEach((other) => { switches[other].checked = true; });
      else switches.forEach((other, its) => { if (above(its).includes(place)) other.checked = false; });
      show();
    });
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
