"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const body = document.querySelector("#rows tbody");
  if (!body) return;
  const rows = Array.from(body.rows);
  const search = document.getElementById("search");
  const verdict = document.getElementById("verdict");
  const suite = document.getElementById("suite");
  const said = document.getElementById("shown");
  const texts = rows.map((row) => row.dataset.text.toLowerCase());

  const close = () => body.querySelectorAll("tr.detail").forEach((row) => {
    document.querySelector('[aria-controls="' + row.id + '"]').setAttribute("aria-expanded", "false");
    row.remove();
  });

  const apply = () => {
    close();
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    rows.forEach((row, i) => {
      const fits = (!verdict.value || row.dataset.verdict === verdict.value) &&
        (!suite.value || row.dataset.suite === suite.value) && words.every((word) => texts[i].includes(word));
      row.hidden = !fits;
      if (fits) shown += 1;
    });
    said.textContent = shown + " of " + rows.length + " variants shown";
  };

  const cell = (row, text, name) => {
    const made = row.insertCell();
    made.textContent = text;
    if (name) made.className = name;
  };

  const open = (button) => {
    const row = button.closest("tr");
    const number = row.dataset.number;
    const name = "detail-" + number;
    const old = document.getElementById(name);
    if (old) {
      old.remove();
      button.setAttribute("aria-expanded", "false");
      return;
    }
    const facts = data[Number(number)];
    const detail = document.createElement("tr");
    detail.className = "detail";
    detail.id = name;
    const holder = detail.insertCell();
    holder.colSpan = row.cells.length;
    const reason = document.createElement("p");
    reason.textContent = (facts.code ? facts.code + ": " : "") + facts.reason;
    holder.append(reason);
    const table = document.createElement("table");
    const head = table.createTHead().insertRow();
    for (const title of ["metric", "value", "baseline", "change", "limit", "verdict"]) {
      const th = document.createElement("th");
      th.textContent = title;
      head.append(th);
    }
    const into = table.createTBody();
    for (const metric of facts.metrics) {
      const line = into.insertRow();
      metric.forEach((text, i) => cell(line, text, i === 5 ? "v " + text : i ? "n" : ""));
    }
    holder.append(table);
    row.after(detail);
    button.setAttribute("aria-expanded", "true");
  };

  body.addEventListener("click", (event) => {
    const button = event.target.closest("button.key");
    if (button) open(button);
  });
  let waiting = 0;
  const soon = () => { clearTimeout(waiting); waiting = setTimeout(apply, 80); };
  search.addEventListener("input", soon);
  verdict.addEventListener("change", apply);
  suite.addEventListener("change", apply);
  document.querySelectorAll("[data-only]").forEach((chip) => chip.addEventListener("click", () => {
    verdict.value = chip.dataset.only;
    apply();
    document.getElementById("variants").scrollIntoView();
  }));
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !/INPUT|SELECT|TEXTAREA/.test(document.activeElement.tagName)) {
      event.preventDefault();
      search.focus();
    }
  });
  apply();
})();
