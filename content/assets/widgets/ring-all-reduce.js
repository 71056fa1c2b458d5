/* Ring all-reduce, one step at a time. All states, sends, byte counts and places come with the element. */

const VERBS = { reduce_scatter: ["reduce-scatter", "adds", "add"], all_gather: ["all-gather", "copies", "copy"] };

const style = new CSSStyleSheet();
style.replaceSync(`
  .md-typeset ring-all-reduce table.data :is(th, td) { padding: .5em 0; text-align: center; }
  .md-typeset ring-all-reduce table.data td { min-width: min(2.9em, 9vw); border: 1px solid var(--fig-rule); }
  .md-typeset ring-all-reduce table.data th:first-child { padding-inline: .2em .6em; text-align: left; }
  ring-all-reduce td[data-arrived] { outline: 2.5px solid var(--fig-ink); outline-offset: -2.5px; }
  ring-all-reduce progress { vertical-align: middle; accent-color: var(--fig-1); }
  ring-all-reduce svg { fill: var(--fig-ink); }
  ring-all-reduce :is(.frame, .line) { fill: none; stroke: var(--fig-ink); }
  ring-all-reduce svg g { animation: leave .5s ease-out; }
  @keyframes leave { from { transform: translate(var(--x), var(--y)); } }
`);
document.adoptedStyleSheets.push(style);

class RingAllReduce extends HTMLElement {
  connectedCallback() {
    this.cases = JSON.parse(this.querySelector("script").textContent);
    this.live = this.querySelector("[data-live]");
    const { ranks, step, back, next } = this.controls;
    ranks.addEventListener("input", () => this.show(0));
    step.addEventListener("input", () => this.show(Number(step.value)));
    back.addEventListener("click", () => this.show(Number(step.value) - 1));
    next.addEventListener("click", () => this.show(Number(step.value) + 1));
    for (const button of [back, next]) {
      button.addEventListener("keydown", ({ key }) => {
        const way = { ArrowLeft: -1, ArrowRight: 1 }[key];
        if (way) this.show(Number(step.value) + way);
      });
    }
    this.show(Number(step.value));
    this.live.hidden = false;
    this.querySelector("details").open = false;
  }

  get controls() {
    return this.live.querySelector("fieldset").elements;
  }

  show(step) {
    const { ranks, step: slider, back, next } = this.controls;
    const ring = this.cases[ranks.value];
    slider.max = ring.phases.length;
    slider.value = step;
    // Not `disabled`: a disabled button loses the keyboard's focus.
    back.setAttribute("aria-disabled", step <= 0);
    next.setAttribute("aria-disabled", step >= ring.phases.length);
    step = Number(slider.value);
    this.live.querySelector("[role=status]").textContent = sentence(ring, step);
    this.live.querySelector("progress").value = ring.sent[step];
    this.live.querySelector("[data-sent]").textContent =
      `${ring.words[step]} S of 2(p−1)S/p = ${ring.words.at(-1)} S; the bound is 2 S`;
    const chunks = held(ring, step);
    this.live.querySelector("table").innerHTML = table(chunks);
    const svg = this.live.querySelector("svg");
    svg.setAttribute("viewBox", `0 0 ${ring.drawing.size.join(" ")}`);
    svg.setAttribute("aria-label", onTheWay(ring, step));
    svg.innerHTML = drawing(ring, step, chunks);
  }
}

function sentence(ring, step) {
  if (step === 0) return `Start: every rank has ${ring.states.at(0).length} chunks of its own.`;
  const [phase, verb] = VERBS[ring.phases[step - 1]];
  const moves = ring.sends[step - 1].map(([from, to, chunk]) => `${to} ${verb} c${chunk} from ${from}`);
  return `Step ${step} of ${ring.phases.length}, ${phase}: rank ${moves.join(", ")}.`;
}

function onTheWay(ring, step) {
  const moves = (ring.sends[step] ?? []).map(([from, to, chunk]) => `c${chunk} from rank ${from} to ${to}`);
  return moves.length ? `The ring. On the way: ${moves.join(", ")}.` : "The ring at rest: every rank has every sum.";
}

/* held[rank][chunk]: the ranks summed in it, their share of all, whether it just came, whether it goes now. */
function held(ring, step) {
  const arrived = (ring.sends[step - 1] ?? []).map(([, to, chunk]) => `${to} ${chunk}`);
  const leaving = (ring.sends[step] ?? []).map(([from, , chunk]) => `${from} ${chunk}`);
  return ring.states[step].map((masks, rank) => masks.map((mask, chunk) => {
    const ranks = [...masks.keys()].filter((other) => mask & (1 << other));
    const place = `${rank} ${chunk}`;
    return { ranks, share: ranks.length / masks.length, arrived: arrived.includes(place), leaving: leaving.includes(place) };
  }));
}

function table(chunks) {
  const head = chunks.map((_, chunk) => `<th scope="col">c${chunk}</th>`).join("");
  const body = chunks.map((row, rank) => `<tr><th scope="row">r${rank}</th>${row.map(cell).join("")}</tr>`).join("");
  return `<thead><tr><th scope="col">rank</th>${head}</tr></thead><tbody>${body}</tbody>`;
}

function cell({ ranks, share, arrived, leaving }, chunk) {
  const tint = (strength) => `color-mix(in srgb, var(--fig-${chunk + 1}) ${strength}%, transparent) ${100 * share}%`;
  const title = `sum of rank ${ranks.join(", ")}${arrived ? "; just arrived" : ""}${leaving ? "; sent next" : ""}`;
  return `<td${arrived ? " data-arrived" : ""} title="${title}" style="background:linear-gradient(to top,${tint(40)},${tint(12)})">`
    + `${ranks.length}${leaving ? "↓" : ""}</td>`;
}

/* The ring as an SVG's content: the rows of all ranks, and what is on its way between them. */
function drawing(ring, step, chunks) {
  const { centre: [x, y], row: [width, height], rows, labels, thick, token, tokens, names, shafts, heads, links } = ring.drawing;
  const wide = width / rows.length;
  const places = rows.map(([left, top]) => rows.map((_, chunk) => [left + wide * chunk, top, wide, height]));
  const drawn = chunks.map((row, rank) => text(labels[rank], `rank ${rank}`)
    + row.map(({ share, arrived }, chunk) => box(places[rank][chunk], chunk, share, arrived ? thick : 0.8)).join(""));
  const moving = (ring.sends[step] ?? []).map(([from, , chunk]) => {
    const [left, top] = tokens[from];
    const start = `--x:${places[from][chunk][0] - left}px;--y:${places[from][chunk][1] - top}px`;
    return `<g style="${start}">${box([left, top, ...token], chunk, chunks[from][chunk].share, 0.8)}${text(names[from], `c${chunk}`, 11)}</g>`;
  });
  const lines = moving.length ? `<path class="line" d="${shafts}"/><path d="${heads}"/>` : `<path class="line" d="${links}"/>`;
  const said = moving.length ? [`next: step ${step + 1}`, `${VERBS[ring.phases[step]][2]} what arrives`] : ["every rank has", "every sum"];
  return [lines, ...drawn, ...said.map((words, line) => text([x, y - 3 + 15 * line], words)), ...moving].join("");
}

function text([x, y], words, size = 12) {
  return `<text x="${x}" y="${y}" font-size="${size}" text-anchor="middle">${words}</text>`;
}

/* A framed cell, filled from below to a share; the strengths are those of distlab.plots.looks. */
function box([x, y, width, height], chunk, share, thick) {
  const tint = (top, high, strength) =>
    `<rect x="${x}" y="${top}" width="${width}" height="${high}" fill="var(--fig-${chunk + 1})" fill-opacity="${strength}"/>`;
  const level = y + height * (1 - share);
  return tint(y, level - y, 0.12) + tint(level, y + height - level, 0.75)
    + `<rect class="frame" x="${x + thick / 2}" y="${y + thick / 2}" width="${width - thick}" height="${height - thick}" stroke-width="${thick}"/>`;
}

customElements.define("ring-all-reduce", RingAllReduce);
