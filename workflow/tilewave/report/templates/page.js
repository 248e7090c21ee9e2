// Sorting and filtering of tables. Pages are complete without it.
"use strict";
function valueOf(cell) {
  const text = cell ? cell.textContent.trim() : "";
  const number = parseFloat(text.replace(/,/g, "").replace("−", "-").replace("∞", "Infinity"));
  return { text, number: Number.isNaN(number) ? null : number, empty: text === "" };
}
function sortBy(table, column, header) {
  const descending = header.getAttribute("aria-sort") === "ascending";
  for (const cell of table.tHead.rows[0].cells) cell.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", descending ? "descending" : "ascending");
  const body = table.tBodies[0];
  const rows = Array.from(body.rows, (row) => ({ row, key: valueOf(row.cells[column]) }));
  const numeric = header.classList.contains("n");
  rows.sort((a, b) => {
    if (a.key.empty !== b.key.empty) return a.key.empty ? 1 : -1; // empty cells stay last
    const order = numeric ? a.key.number - b.key.number : a.key.text.localeCompare(b.key.text, "en");
    return descending ? -order : order;
  });
  body.append(...rows.map(({ row }) => row));
}
function explore(table) {
  const heads = Array.from(table.tHead.rows[0].cells);
  heads.forEach((header, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sort";
    button.append(...header.childNodes);
    button.addEventListener("click", () => sortBy(table, column, header));
    header.append(button);
  });
  const rows = Array.from(table.tBodies[0].rows);
  if (rows.length < 6) return;
  const bar = document.createElement("form");
  bar.className = "filters";
  const search = document.createElement("input");
  search.type = "search";
  search.placeholder = "Find";
  search.setAttribute("aria-label", "Show rows that contain");
  bar.append(search);
  const names = (table.dataset.filters || "").split("|").filter(Boolean);
  const menus = [];
  for (const name of names) {
    const column = heads.findIndex((head) => head.textContent.trim() === name);
    if (column < 0) continue;
    const menu = document.createElement("select");
    menu.setAttribute("aria-label", name);
    const parts = (row) => row.cells[column].textContent.split(", ");
    const values = Array.from(new Set(rows.flatMap(parts))).filter(Boolean).sort();
    menu.append(new Option(`any ${name}`, ""), ...values.map((value) => new Option(value, value)));
    menus.push((row) => !menu.value || parts(row).includes(menu.value));
    bar.append(menu);
  }
  const count = document.createElement("output");
  bar.append(count);
  const filter = () => {
    const wanted = search.value.trim().toLowerCase();
    let shown = 0;
    for (const row of rows) {
      const fits = row.textContent.replace(/\u00a0/g, " ").toLowerCase().includes(wanted) && menus.every((matches) => matches(row));
      row.hidden = !fits;
      shown += fits ? 1 : 0;
    }
    count.textContent = shown === rows.length ? `${shown} rows` : `${shown} of ${rows.length} rows`;
  };
  bar.addEventListener("input", filter);
  bar.addEventListener("submit", (event) => event.preventDefault());
  filter();
  const box = table.closest(".scroll") || table;
  box.before(bar);
}
function openTarget() {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  for (let node = target; node; node = node.parentElement) if (node.tagName === "DETAILS") node.open = true;
  if (target) target.scrollIntoView();
}
document.querySelectorAll("table.explore").forEach(explore);
addEventListener("hashchange", openTarget);
openTarget();
