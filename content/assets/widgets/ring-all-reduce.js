/* Ring all-reduce, one step at a time. All states, sends and byte counts come with the element. */

const VERBS = { reduce_scatter: ["reduce-scatter", "adds"], all_gather: ["all-gather", "copies"] };

const style = new CSSStyleSheet();
style.replaceSync(`
  .md-typeset ring-all-reduce table.data :is(th, td) { padding: .55em 0; text-align: center; }
  .md-typeset ring-all-reduce table.data td { min-width: min(3.8em, 9vw); }
  .md-typeset ring-all-reduce table.data th:first-child { padding-inline: .2em .6em; text-align: left; }
  ring-all-reduce td[data-arrived] { outline: 2.5px solid var(--fig-ink); outline-offset: -2.5px; }
  ring-all-reduce progress { vertical-align: middle; accent-color: var(--fig-1); }
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
    this.live.querySelector("table").replaceChildren(...rows(ring, step));
  }
}

function sentence(ring, step) {
  if (step === 0) return `Start: every rank has ${ring.states.at(0).length} chunks of its own.`;
  const [phase, verb] = VERBS[ring.phases[step - 1]];
  const moves = ring.sends[step - 1].map(([from, to, chunk]) => `${to} ${verb} c${chunk} from ${from}`);
  return `Step ${step} of ${ring.phases.length}, ${phase}: rank ${moves.join(", ")}.`;
}

function rows(ring, step) {
  const arrived = new Set((ring.sends[step - 1] ?? []).map(([, to, chunk]) => `${to} ${chunk}`));
  const leaving = new Set((ring.sends[step] ?? []).map(([from, , chunk]) => `${from} ${chunk}`));
  const head = document.createElement("thead");
  head.append(row(["rank", ...ring.states[step].map((_, chunk) => `c${chunk}`)].map(heading("col"))));
  const body = document.createElement("tbody");
  ring.states[step].forEach((chunks, rank) => {
    const cells = chunks.map((mask, chunk) =>
      cell(mask, chunks.length, arrived.has(`${rank} ${chunk}`), leaving.has(`${rank} ${chunk}`)));
    body.append(row([heading("row")(`r${rank}`), ...cells]));
  });
  return [head, body];
}

function row(cells) {
  const element = document.createElement("tr");
  element.append(...cells);
  return element;
}

const heading = (scope) => (text) => Object.assign(document.createElement("th"), { scope, textContent: text });

/* One rank's copy of one chunk: a stripe of colour and a count for the ranks summed in it. */
function cell(mask, worldSize, arrived, leaving) {
  const ranks = [...Array(worldSize).keys()].filter((rank) => mask & (1 << rank));
  const element = document.createElement("td");
  element.textContent = `${ranks.length}${leaving ? "↓" : ""}`;
  element.title = `sum of rank ${ranks.join(", ")}${arrived ? "; just arrived" : ""}${leaving ? "; sent next" : ""}`;
  element.toggleAttribute("data-arrived", arrived);
  element.style.background = `linear-gradient(90deg, ${stripes(ranks, worldSize)})`;
  return element;
}

function stripes(ranks, worldSize) {
  return [...Array(worldSize).keys()].map((rank) => {
    const colour = ranks.includes(rank)
      ? `color-mix(in srgb, var(--fig-${(rank % 6) + 1}) 28%, transparent)` : "transparent";
    return `${colour} ${(100 * rank) / worldSize}% ${(100 * (rank + 1)) / worldSize}%`;
  }).join(", ");
}

customElements.define("ring-all-reduce", RingAllReduce);
