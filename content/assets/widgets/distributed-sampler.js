/* Who gets which index from DistributedSampler: every list was drawn from torch's own sampler. */

class DistributedSampler extends HTMLElement {
  connectedCallback() {
    this.cases = JSON.parse(this.querySelector("script").textContent);
    this.live = this.querySelector("[data-live]");
    this.addEventListener("input", () => this.show());
    this.show();
    this.live.hidden = false;
    this.querySelector("details").open = false;
  }

  show() {
    const { examples, ranks, epoch, drop_last, set_epoch } = this.live.querySelector("fieldset").elements;
    const shards = this.cases[drop_last.checked ? "True" : "False"][examples.value][ranks.value];
    const order = set_epoch.checked ? Number(epoch.value) : shards.stale[epoch.value];
    const replayed = order === Number(epoch.value) ? "" : `, which replays the order of epoch ${order}`;
    this.live.querySelector("[role=status]").textContent =
      `Epoch ${epoch.value}${replayed}: ${summary(shards.epochs[order], shards.dropped[order])}`;
    this.live.querySelector("table").replaceChildren(...rows(shards.epochs[order]));
  }
}

/* An index that only pads is written ~index, which is below 0. */
function summary(perRank, dropped) {
  const again = perRank.flat().filter((index) => index < 0).map((index) => ~index);
  const counts = `${perRank[0].length} for each rank`;
  if (dropped.length) return `${counts}; dropped: ${dropped.join(", ")}.`;
  return again.length ? `${counts}; drawn twice: ${again.join(", ")}.` : `${counts}; each index once.`;
}

function rows(perRank) {
  const head = document.createElement("thead");
  head.append(row(["rank", ...perRank[0].map((_, turn) => `turn ${turn}`)].map((text) => header(text, "col"))));
  const body = document.createElement("tbody");
  perRank.forEach((indices, rank) => {
    body.append(row([header(`rank ${rank}`, "row"), ...indices.map(slot)]));
  });
  return [head, body];
}

function row(cells) {
  const element = document.createElement("tr");
  element.append(...cells);
  return element;
}

function header(text, scope) {
  return Object.assign(document.createElement("th"), { scope, textContent: text });
}

function slot(index) {
  const element = document.createElement("td");
  element.textContent = index < 0 ? `${~index} again` : index;
  if (index < 0) element.style.background = "color-mix(in srgb, var(--fig-2) 28%, transparent)";
  return element;
}

customElements.define("distributed-sampler", DistributedSampler);
