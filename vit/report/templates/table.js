"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0], rows = [...body.rows], heads = [...table.tHead.rows[0].cells];
  const box = document.querySelector(`[data-filters="${table.id}"]`);
  if (box) {
    const field = box.querySelector("input"), status = box.querySelector("[role=status]");
    box.hidden = false;
    field.addEventListener("input", () => {
      const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const row of rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
        shown += !row.hidden;
      }
      status.textContent = words.length ? `${shown} of ${rows.length}` : "";
    });
  }
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down > 0 ? "ascending" : "descending");
      const numeric = rows.some((row) => "value" in row.cells[column].dataset);
      const value = (row) => numeric ? row.cells[column].dataset.value ?? "" : row.cells[column].textContent;
      const order = (one, other) => numeric ? one - other : one.localeCompare(other, undefined, { numeric: true });
      rows.sort((one, other) => (value(one) === "") - (value(other) === "") || down * order(value(one), value(other)));
      body.append(...rows);
    });
  });
}
