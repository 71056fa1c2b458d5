/* Timelines of one step, chosen by where the times come from, bucket cap and network. Python has
   drawn every case; this shows the chosen one, or the nearest there is. */

class DdpTimeline extends HTMLElement {
  connectedCallback() {
    Object.assign(this, JSON.parse(this.querySelector("script").textContent)); // cases, drawings
    this.live = this.querySelector("[data-live]");
    this.addEventListener("input", (event) => this.show(event.target.name));
    this.show();
    this.live.hidden = false;
    this.querySelector("details").open = false;
  }

  /* The choice just made always holds; the others follow it where no case has all three. */
  show(changed) {
    const lists = [...this.live.querySelectorAll("select")];
    const agreeing = (timeline) => lists.reduce(
      (sum, list) => sum + (timeline[list.name] === Number(list.value)) * (list.name === changed ? 10 : 1), 0);
    const chosen = this.cases.reduce((best, timeline) => (agreeing(timeline) > agreeing(best) ? timeline : best));
    for (const list of lists) list.value = chosen[list.name];
    this.live.querySelector("[role=status]").textContent = chosen.words;
    this.live.querySelector("[data-drawing]").innerHTML = chosen.drawn.map((number) => this.drawings[number]).join("");
  }
}

customElements.define("ddp-timeline", DdpTimeline);
