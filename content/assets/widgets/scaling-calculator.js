/* The scaling calculator: reads its controls, fills in its tables, keeps the case in the address bar. */

import { breakEvenTokens, gradientBytes, memory, plain, three, times } from "./scaling.mjs";

const UNITS = { parameters: 1e9, bus_bandwidth: 1e9, flops: 1e12, world_size: 1, tokens: 1 };
const ms = (seconds) => `${three(seconds * 1e3)}\u00a0ms`;
const gigabytes = (size) => `${three(size / 1e9)}\u00a0GB`;
const percent = (share) => `${three(share * 100)}\u00a0%`;

class ScalingCalculator extends HTMLElement {
  connectedCallback() {
    this.tables = JSON.parse(this.querySelector("script").textContent);
    this.live = this.querySelector("[data-live]");
    this.defaults = new Map(this.controls.map((control) => [control.name, read(control)]));
    this.restore(new URLSearchParams(location.search));
    this.addEventListener("input", () => { this.show(); this.keep(); });
    this.show();
    this.live.hidden = false;
  }

  get controls() {
    return [...this.live.querySelectorAll("input, select")];
  }

  /* Take from a shared address what this form can hold; the rest keeps its default. */
  restore(address) {
    for (const control of this.controls) {
      if (!address.has(control.name)) continue;
      write(control, address.get(control.name));
      if (control.value === "" || !control.checkValidity()) write(control, this.defaults.get(control.name));
    }
  }

  keep() {
    const address = new URL(location.href);
    for (const control of this.controls) {
      if (read(control) === this.defaults.get(control.name)) address.searchParams.delete(control.name);
      else address.searchParams.set(control.name, read(control));
    }
    history.replaceState(history.state, "", address);
  }

  show() {
    const wrong = this.controls.find((control) => !control.checkValidity());
    const alert = this.live.querySelector("[role=alert]");
    const label = wrong?.labels[0].firstChild.textContent;
    alert.textContent = wrong ? `${label}: ${wrong.validationMessage} The tables keep the last case.` : "";
    if (wrong) return;
    const setup = Object.fromEntries(this.controls.map((control) =>
      [control.name, control.name in UNITS ? Number(control.value) * UNITS[control.name] : read(control)]));
    this.showTimes(setup);
    this.showMemory(memory(setup, this.tables, setup.bucket_copy === "yes"));
  }

  showTimes(setup) {
    const step = times(setup, this.tables);
    const even = breakEvenTokens(setup, this.tables);
    const values = {
      gradients: gigabytes(gradientBytes(setup, this.tables)),
      communication: ms(step.communication), forward: ms(step.forward), backward: ms(step.backward),
      ratio: percent(step.communication / step.compute), hidden: percent(step.hidden_fraction),
      exposed: ms(step.exposed), overlapped: ms(step.overlapped_step), naive: ms(step.naive_step),
      even: three(even),
    };
    for (const place of this.querySelectorAll("[data-value]")) place.textContent = values[place.dataset.value];
    const verdict = this.tables.verdicts[setup.tokens >= even ? "hides" : "waits"];
    this.querySelector("[role=status]").textContent =
      verdict.replace("{tokens}", plain(setup.tokens)).replace("{even}", three(even));
  }

  showMemory(items) {
    const sum = (values) => values.reduce((total, value) => total + value, 0);
    const stages = items[0].per_rank.map((_, stage) => sum(items.map((item) => item.per_rank[stage])));
    const total = { name: "total", bytes_per_parameter: sum(items.map((item) => item.bytes_per_parameter)), per_rank: stages };
    this.querySelector("[data-rows=memory]").replaceChildren(...[...items, total].map(row));
  }
}

function row({ name, bytes_per_parameter, per_rank }) {
  const element = document.createElement("tr");
  const head = Object.assign(document.createElement("th"), { scope: "row", textContent: name });
  element.append(head, ...[bytes_per_parameter, ...per_rank.map(gigabytes)].map((text) => {
    const cell = Object.assign(document.createElement("td"), { textContent: text });
    cell.style.textAlign = "right";
    return cell;
  }));
  return element;
}

function read(control) {
  if (control.type === "checkbox") return control.checked ? "yes" : "no";
  return control.value;
}

function write(control, text) {
  if (control.type === "checkbox") control.checked = text === "yes";
  else control.value = text;
}

customElements.define("scaling-calculator", ScalingCalculator);
