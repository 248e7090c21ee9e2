// The quantization explorer. The closed forms are those of tilewave/theory/quantization.py and
// tiling.py, and tests compare both. The rest redraws the page when an input changes.
"use strict";
const closedForms = {
  tiles: (m, n, rows, columns) => [Math.ceil(m / rows), Math.ceil(n / columns)],
  tileCount(m, n, rows, columns) {
    const [down, across] = closedForms.tiles(m, n, rows, columns);
    return down * across;
  },
  tileEfficiency: (m, n, rows, columns) =>
    (m * n) / (closedForms.tileCount(m, n, rows, columns) * rows * columns),
  lastColumnUseful: (n, columns) => (n - (Math.ceil(n / columns) - 1) * columns) / columns,
  operationsRatio: (m, n, rows, columns) => 1 / closedForms.tileEfficiency(m, n, rows, columns),
  waves(blocks, sms, blocksPerSm) {
    const capacity = sms * blocksPerSm;
    const count = Math.ceil(blocks / capacity);
    return {
      full: Math.floor(blocks / capacity),
      tail: blocks % capacity,
      count,
      fraction: blocks / capacity,
      efficiency: blocks / (count * capacity),
    };
  },
  roundsOnSms: (blocks, sms) => Math.ceil(blocks / sms),
  cyclesActiveRatio: (blocks, sms) => blocks / (sms * Math.ceil(blocks / sms)),
  parallelEfficiency: (m, n, rows, columns, sms, blocksPerSm) =>
    closedForms.tileEfficiency(m, n, rows, columns) *
    closedForms.waves(closedForms.tileCount(m, n, rows, columns), sms, blocksPerSm).efficiency,
};
// ------------------------------------------------------------------ the view
const MOST_ROWS = 24;
const FRAME = { left: 84, top: 12, right: 624, bottom: 232 };
const NAMES = ["m", "n", "k", "rows", "columns", "sms", "blocks"];
const at = (setting, n) => ({ ...setting, n });
const blocksOf = ({ m, n, rows, columns }) => closedForms.tileCount(m, n, rows, columns);
const wavesOf = (setting) => closedForms.waves(blocksOf(setting), setting.sms, setting.blocks);
const efficiencyOf = ({ m, n, rows, columns, sms, blocks }) =>
  closedForms.parallelEfficiency(m, n, rows, columns, sms, blocks);
// If the blocks of an SM share its throughput, the busiest SM sets the time.
const sharedEfficiencyOf = ({ m, n, rows, columns, sms }) =>
  closedForms.tileEfficiency(m, n, rows, columns) *
  closedForms.cyclesActiveRatio(closedForms.tileCount(m, n, rows, columns), sms);
const span = ({ n, columns }) => [Math.max(1, n - 4 * columns), n + 4 * columns];
function endsOfColumns(setting, low, high) {
  const sizes = [];
  const size = setting.columns;
  for (let column = Math.ceil(low / size); column <= Math.ceil(high / size); column++) {
    sizes.push(Math.max(low, (column - 1) * size + 1), Math.min(high, column * size));
  }
  return sizes;
}
const curve = (setting, low, high, of = efficiencyOf) =>
  endsOfColumns(setting, low, high).map((n) => [n, of(at(setting, n))]);
function percent(share) {
  const tenths = Math.floor(1000 * share + 0.5);
  return `${Math.floor(tenths / 10)}.${tenths % 10} %`;
}
function values(setting) {
  const [down, across] = closedForms.tiles(setting.m, setting.n, setting.rows, setting.columns);
  const waves = wavesOf(setting);
  const shares = [
    closedForms.lastColumnUseful(setting.n, setting.columns),
    closedForms.tileEfficiency(setting.m, setting.n, setting.rows, setting.columns),
    waves.efficiency,
    efficiencyOf(setting),
  ];
  const counts = [setting.n, `${down} × ${across}`, waves.count, waves.tail];
  return [...counts.map(String), ...shares.map(percent)];
}
function tableOf(setting, low, high) {
  const sizes = Array.from(new Set(endsOfColumns(setting, low, high)));
  const stride = Math.ceil(sizes.length / MOST_ROWS);
  return sizes.filter((_, index) => index % stride === 0).map((n) => values(at(setting, n)));
}
function plotOf(setting) {
  const [low, high] = span(setting);
  const { left, right, bottom } = FRAME;
  const x = (n) => (left + ((right - left) * (n - low)) / (high - low)).toFixed(1);
  const y = (share) => (bottom - (bottom - FRAME.top) * share).toFixed(1);
  const path = (points) => "M" + points.map(([n, share]) => `${x(n)} ${y(share)}`).join("L");
  let step = 1;
  while ((high - low) / step > 6) step *= 2;
  const across = [];
  for (let n = Math.ceil(low / step) * step; n <= high; n += step) across.push([x(n), String(n)]);
  return {
    path: path(curve(setting, low, high)),
    // Between the ends of a column this share grows linearly, too.
    shared: setting.blocks > 1 ? path(curve(setting, low, high, sharedEfficiencyOf)) : "",
    across,
    up: [0, 0.25, 0.5, 0.75, 1].map((share) => [y(share), `${Math.round(100 * share)} %`]),
    here: [x(setting.n), y(efficiencyOf(setting))],
  };
}
// ------------------------------------------------------------------------------------- the page
function start() {
  const part = (name) => document.getElementById(`explorer-${name}`);
  const input = (name) => part("inputs").elements[name];
  const tell = (name, text) => (part(name).textContent = text);
  let setting = Object.fromEntries(NAMES.map((name) => [name, Number(input(name).value)]));

  function svg(parent, tag, attributes, text = "") {
    const element = document.createElementNS(parent.namespaceURI, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.textContent = text;
    parent.append(element);
    return element;
  }
  function drawPlot() {
    const drawn = plotOf(setting);
    for (const name of ["path", "shared"]) part(name).setAttribute("d", drawn[name]);
    part("key-shared").toggleAttribute("hidden", !drawn.shared);
    for (const name of ["across", "up", "here"]) part(name).replaceChildren();
    for (const [x, text] of drawn.across) {
      svg(part("across"), "text", { x, y: FRAME.bottom + 26, "text-anchor": "middle" }, text);
    }
    for (const [y, text] of drawn.up) {
      svg(part("up"), "path", { d: `M${FRAME.left} ${y}H${FRAME.right}` });
      svg(part("up"), "text", { x: FRAME.left - 8, y, dy: ".35em", "text-anchor": "end" }, text);
    }
    const [x, y] = drawn.here;
    svg(part("here"), "path", { d: `M${x} ${FRAME.top}V${FRAME.bottom}` });
    svg(part("here"), "circle", { cx: x, cy: y, r: 6 });
  }
  function drawTiles() {
    const [down, across] = closedForms.tiles(setting.m, setting.n, setting.rows, setting.columns);
    const [allRows, allColumns] = [down * setting.rows, across * setting.columns];
    const scale = Math.min(300 / allColumns, 220 / allRows);
    // A very long or flat C is squeezed, so that its tiles can be seen.
    const wide = Math.max(allColumns * scale, 60);
    const high = Math.max(allRows * scale, 60);
    const [dx, dy] = [wide / across, high / down];
    const [useful, usefulDown] = [(setting.n / allColumns) * wide, (setting.m / allRows) * high];
    part("c").setAttribute("d", `M10 10h${useful}v${usefulDown}h${-useful}z`);
    part("outside").setAttribute(
      "d",
      `M${10 + useful} 10H${10 + wide}V${10 + high}H10V${10 + usefulDown}H${10 + useful}z`,
    );
    let last = "";
    const { tail, full } = wavesOf(setting);
    // Column by column from the right: the last column may be partly marked.
    for (let left = full ? tail : 0, column = across - 1; left > 0; column--) {
      const count = Math.min(left, down);
      last += `M${10 + column * dx} ${10 + high}h${dx}v${-count * dy}h${-dx}z`;
      left -= count;
    }
    part("last").setAttribute("d", last);
    let lines = "";
    if (down <= 120) for (let i = 0; i <= down; i++) lines += `M10 ${10 + i * dy}h${wide}`;
    if (across <= 160) for (let i = 0; i <= across; i++) lines += `M${10 + i * dx} 10v${high}`;
    part("grid").setAttribute("d", lines);
    const squeezed = Math.abs(dx / dy / (setting.columns / setting.rows) - 1) > 1e-6;
    const partly = [
      setting.n % setting.columns && `the ${down} of the last column`,
      setting.m % setting.rows && `the ${across} of the last row`,
    ].filter(Boolean);
    tell(
      "tiles-text",
      `${down} × ${across} = ${down * across} tiles; ` +
        (partly.length ? `partly filled: ${partly.join(" and ")}` : "all are filled") +
        `. ${percent(1 - closedForms.tileEfficiency(setting.m, setting.n, setting.rows, setting.columns))}` +
        " of their area is outside C." +
        (last ? ` Marked: the ${tail} of the last wave, if blocks are assigned column by column.` : "") +
        (squeezed ? " Not to scale." : ""),
    );
  }
  function drawWaves() {
    const { full, tail, count } = wavesOf(setting);
    const capacity = setting.sms * setting.blocks;
    const dx = 280 / count;
    const busy = (220 * tail) / capacity;
    part("busy").setAttribute(
      "d",
      (full ? `M30 10h${full * dx}v220h${-full * dx}z` : "") +
        (tail ? `M${30 + full * dx} 10h${dx}v${busy}h${-dx}z` : ""),
    );
    part("idle").setAttribute(
      "d",
      tail ? `M${30 + full * dx} ${10 + busy}h${dx}v${220 - busy}h${-dx}z` : "",
    );
    let lines = "";
    if (count <= 140) for (let i = 0; i <= count; i++) lines += `M${30 + i * dx} 10v220`;
    part("ends").setAttribute("d", lines);
    const busiest = closedForms.roundsOnSms(blocksOf(setting), setting.sms);
    const several = (number, word) => `${number} ${word}${number === 1 ? "" : "s"}`;
    tell(
      "waves-text",
      (full ? `${several(full, "full wave")} of ${several(capacity, "block")} on ` : "No full wave on ") +
        several(setting.sms, "SM") +
        (tail ? `; the last wave has ${several(tail, "block")} and ${several(capacity - tail, "idle slot")}` : "") +
        (setting.blocks > 1 ? `; the busiest SM gets ${several(busiest, "block")}` : "") +
        ".",
    );
  }
  function drawText() {
    const cells = part("values").querySelectorAll("td");
    values(setting)
      .slice(1)
      .forEach((text, index) => (cells[index].textContent = text));
    const work = (2 * setting.m * setting.n * setting.k) / 1e9;
    const ratio = closedForms.operationsRatio(setting.m, setting.n, setting.rows, setting.columns);
    tell("work", work.toFixed(3));
    tell("executed", ratio.toFixed(3));
    const [low, high] = span(setting);
    const body = part("table").tBodies[0];
    body.replaceChildren();
    for (const row of tableOf(setting, low, high)) {
      const line = body.insertRow();
      for (const text of row) line.insertCell().textContent = text;
      for (const cell of line.cells) cell.className = "n";
    }
  }
  function draw() {
    drawTiles();
    drawWaves();
    drawPlot();
    drawText();
  }
  // Accepts a valid value and returns whether it was one.
  function take(name, value) {
    if (!Number.isSafeInteger(value) || value < 1 || value > Number(input(name).max)) return false;
    setting = { ...setting, [name]: value };
    return true;
  }
  function show(except = null) {
    for (const name of NAMES) {
      for (const field of [input(name), part(`slide-${name}`)]) {
        if (field !== except) field.value = setting[name];
      }
      input(name).removeAttribute("aria-invalid");
    }
  }
  function fromAddress() {
    for (const [name, value] of new URLSearchParams(location.hash.slice(1))) {
      if (NAMES.includes(name)) take(name, Number(value));
    }
    show();
    draw();
  }
  function toAddress() {
    history.replaceState(null, "", `#${new URLSearchParams(setting)}`);
  }
  part("inputs").addEventListener("input", ({ target }) => {
    const name = target.name || target.dataset.of;
    if (NAMES.includes(name)) {
      const fits = take(name, target.valueAsNumber);
      if (fits) show(target);
      else target.setAttribute("aria-invalid", "true");
    }
    draw();
  });
  // The address holds the inputs, so that readers can copy it.
  part("inputs").addEventListener("change", toAddress);
  part("inputs").addEventListener("submit", (event) => event.preventDefault());
  addEventListener("hashchange", fromAddress);
  for (const element of document.querySelectorAll("[data-needs-script]")) element.hidden = false;
  fromAddress();
}
if (typeof document === "object") start();
